package rawoutputexporter

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otel-rawoutput/rawoutput/internal/hourly"
)

// Config is the configuration of the exporter.
type Config struct {
	// Directory is where the hours are made (default empty: the exporter is switched off).
	Directory string `mapstructure:"directory"`

	// FilePermissions are those of new files, an octal string (default "0640").
	FilePermissions string `mapstructure:"file_permissions"`

	// DirectoryPermissions are those of new directories, an octal string (default "0750").
	DirectoryPermissions string `mapstructure:"directory_permissions"`

	// RetryOnFailure says how long to try again where a file can't be written (default: up to 2s, first after 100ms).
	// Without a queue the caller waits meanwhile, so that max_elapsed_time is then at most 2s.
	RetryOnFailure configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// QueueConfig is the sending queue (default: none).
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// mostWait is how long a caller waits at the most.
const mostWait = 2 * time.Second

func createDefaultConfig() component.Config {
	retry := configretry.NewDefaultBackOffConfig()
	retry.InitialInterval = 100 * time.Millisecond
	retry.MaxInterval = 500 * time.Millisecond
	retry.MaxElapsedTime = mostWait
	return &Config{
		FilePermissions:      "0640",
		DirectoryPermissions: "0750",
		RetryOnFailure:       retry,
		QueueConfig:          configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
	}
}

// What the owner needs to append to files, whose end is read first, and to make them in a directory, which is opened.
const (
	ownerOfFile      fs.FileMode = 0o600
	ownerOfDirectory fs.FileMode = 0o700
)

// Validate implements confmap.Validator. That the directory can be written to is seen at Start.
func (cfg *Config) Validate() error {
	_, err := cfg.permissions()
	return errors.Join(err, cfg.validateWait())
}

func (cfg *Config) permissions() (hourly.Permissions, error) {
	file, errFile := parsePermissions("file_permissions", cfg.FilePermissions, ownerOfFile)
	directory, errDirectory := parsePermissions("directory_permissions", cfg.DirectoryPermissions, ownerOfDirectory)
	return hourly.Permissions{File: file, Directory: directory}, errors.Join(errFile, errDirectory)
}

func parsePermissions(field, value string, needed fs.FileMode) (fs.FileMode, error) {
	bits, err := strconv.ParseUint(value, 8, 32)
	if err != nil || fs.FileMode(bits)&^fs.ModePerm != 0 {
		return 0, fmt.Errorf(`%s is %q: it must be an octal string from "0000" to "0777"`, field, value)
	}
	if fs.FileMode(bits)&needed != needed {
		return 0, fmt.Errorf("%s is %q: it must let the owner read and write, that is include 0%o", field, value, needed)
	}
	return fs.FileMode(bits), nil
}

func (cfg *Config) validateWait() error {
	retry := &cfg.RetryOnFailure
	if !retry.Enabled || !cfg.callerWaits() || retry.MaxElapsedTime > 0 && retry.MaxElapsedTime <= mostWait {
		return nil
	}
	return fmt.Errorf("retry_on_failure.max_elapsed_time is %v: a caller waits for it where no sending_queue stands between, "+
		"so that it must be above 0 and at most %v; set sending_queue (without wait_for_result) to try longer",
		retry.MaxElapsedTime, mostWait)
}

// callerWaits reports whether a caller waits until its records are written or dropped.
func (cfg *Config) callerWaits() bool {
	return !cfg.QueueConfig.HasValue() || cfg.QueueConfig.Get().WaitForResult
}
