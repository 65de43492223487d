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
	"go.opentelemetry.io/collector/confmap"
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

	// Include has what lines have after their fifteen keys: delivery, resource, trace, frame_times, attributes (default: none).
	// The order of the keys is always the same.
	Include []string `mapstructure:"include"`

	// RetryOnFailure says how long to try again where a file can't be written (default: up to 2s, first after 100ms).
	// Without a queue the caller waits meanwhile, so that max_elapsed_time is then at most 2s.
	RetryOnFailure configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// QueueConfig is the sending queue (default: none).
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Unmarshal implements confmap.Unmarshaler. YAML reads 0640 without quotes as a number in base 8, which would be refused
// with a sentence about types.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error {
	err := conf.Unmarshal(cfg)
	if err == nil {
		return nil
	}
	for _, field := range [...]string{"file_permissions", "directory_permissions"} {
		if number, ok := conf.Get(field).(int); ok {
			err = errors.Join(err, fmt.Errorf(`%s is the number %d: it must be an octal string in quotes, from "0000" to "0777"`, field, number))
		}
	}
	return err
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
	return errors.Join(err, cfg.validateInclude(), cfg.validateRetry(), cfg.validateWait(), cfg.validateQueue())
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

// leastInterval is the shortest time between attempts: each of them opens files.
const leastInterval = 10 * time.Millisecond

func (cfg *Config) validateRetry() error {
	retry := &cfg.RetryOnFailure
	if !retry.Enabled {
		return nil
	}
	var errs []error
	if retry.InitialInterval < leastInterval {
		errs = append(errs, fmt.Errorf("retry_on_failure.initial_interval is %v: it must be at least %v", retry.InitialInterval, leastInterval))
	}
	if retry.MaxInterval < retry.InitialInterval {
		errs = append(errs, fmt.Errorf("retry_on_failure.max_interval is %v: it must be at least initial_interval, which is %v",
			retry.MaxInterval, retry.InitialInterval))
	}
	if !(retry.RandomizationFactor >= 0 && retry.RandomizationFactor <= 1) { // also where it is no number
		errs = append(errs, fmt.Errorf("retry_on_failure.randomization_factor is %v: it must be from 0 to 1", retry.RandomizationFactor))
	}
	if !(retry.Multiplier >= 1) { // also where it is no number
		errs = append(errs, fmt.Errorf("retry_on_failure.multiplier is %v: it must be at least 1", retry.Multiplier))
	}
	return errors.Join(errs...)
}

// validateQueue says of the sizes of the queue what the Collector's own check leaves out: the value.
func (cfg *Config) validateQueue() error {
	if !cfg.QueueConfig.HasValue() {
		return nil
	}
	var errs []error
	queue := cfg.QueueConfig.Get()
	if queue.QueueSize <= 0 {
		errs = append(errs, fmt.Errorf("sending_queue.queue_size is %d: it must be above 0", queue.QueueSize))
	}
	if queue.NumConsumers <= 0 {
		errs = append(errs, fmt.Errorf("sending_queue.num_consumers is %d: it must be above 0", queue.NumConsumers))
	}
	if queue.Batch.HasValue() && queue.Batch.Get().Sizer == exporterhelper.RequestSizerTypeBytes && queue.Batch.Get().MaxSize > 0 {
		errs = append(errs, fmt.Errorf("sending_queue.batch.max_size is %d bytes: it must be 0 with sizer bytes, as the queue would drop larger "+
			"records uncounted; use sizer items", queue.Batch.Get().MaxSize))
	}
	return errors.Join(errs...)
}

// hasQueueOnDisk reports whether the queue outlives the process.
func (cfg *Config) hasQueueOnDisk() bool {
	return cfg.QueueConfig.HasValue() && cfg.QueueConfig.Get().StorageID != nil
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

// callerMayBlock reports whether a caller may wait at the queue.
func (cfg *Config) callerMayBlock() bool {
	return cfg.QueueConfig.HasValue() && (cfg.QueueConfig.Get().BlockOnOverflow || cfg.QueueConfig.Get().WaitForResult)
}

// callerWaits reports whether a caller waits until its records are written or dropped.
func (cfg *Config) callerWaits() bool {
	return !cfg.QueueConfig.HasValue() || cfg.QueueConfig.Get().WaitForResult
}
