package rawoutputexporter

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
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

	// PID says whose process id is in the names of files: the Collector's ("collector", the default), or the process.pid of
	// the record's resource ("source"; the Collector's where that is no integer from 1 to 4194304).
	PID string `mapstructure:"pid"`

	// Hour says which hour a record goes to: that of its finished_at ("finished_at", the default), or that of the time of
	// writing ("written").
	Hour string `mapstructure:"hour"`

	// MaxRecordBytes is the most that a line may have, its newline included (default 64 MiB). A longer one is dropped.
	MaxRecordBytes int `mapstructure:"max_record_bytes"`

	// MaxOpenFiles is how many files are open at the most (default 16).
	MaxOpenFiles int `mapstructure:"max_open_files"`

	// Fsync says when what was written is made safe from a power cut: "never", "interval" (the default) or "always".
	Fsync string `mapstructure:"fsync"`

	// FsyncInterval lies between two syncs, with "interval" (default 1s).
	FsyncInterval time.Duration `mapstructure:"fsync_interval"`

	// Retention says when files are removed (default: never).
	Retention RetentionConfig `mapstructure:"retention"`

	// Compression is "zstd" to compress closed files, or "none" (the default).
	Compression string `mapstructure:"compression"`

	// RetryOnStart lets the Collector start where the directory can't be written to (default false: it fails).
	RetryOnStart bool `mapstructure:"retry_on_start"`

	// RetryOnFailure says how long to try again where a file can't be written (default: up to 2s, first after 100ms).
	// Without a queue the caller waits meanwhile, so that max_elapsed_time is then at most 2s.
	RetryOnFailure configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// QueueConfig is the sending queue (default: none).
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// RetentionConfig says when files of closed hours are removed, the oldest first. 0 is no limit.
type RetentionConfig struct {
	// MaxAge is the age of a file at the most, since its last change.
	MaxAge time.Duration `mapstructure:"max_age"`

	// MaxBytes is how many bytes all files have together at the most.
	MaxBytes int64 `mapstructure:"max_bytes"`

	// MinFreeBytes stay free on the disk: nothing is written that would leave less, and files are removed while there is a
	// little more, a tenth of it and 1 GiB at the most.
	MinFreeBytes int64 `mapstructure:"min_free_bytes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// The values of the options that have a few.
const (
	pidOfCollector = "collector"
	pidOfSource    = "source"

	hourOfFinishedAt = "finished_at"
	hourOfWriting    = "written"

	fsyncNever    = "never"
	fsyncInterval = "interval"
	fsyncAlways   = "always"

	compressionNone = "none"
	compressionZstd = "zstd"
)

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
		PID:                  pidOfCollector,
		Hour:                 hourOfFinishedAt,
		MaxRecordBytes:       64 << 20,
		MaxOpenFiles:         16,
		Fsync:                fsyncInterval,
		FsyncInterval:        time.Second,
		Compression:          compressionNone,
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
	return errors.Join(err, cfg.validateInclude(), cfg.validateFiles(), cfg.Retention.validate(), cfg.validateRetry(), cfg.validateWait(), cfg.validateQueue())
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

// The bounds of options.
const (
	mostRecordBytes    = 1 << 30
	mostOpenFiles      = 4096
	leastFsyncInterval = 10 * time.Millisecond
	leastAge           = time.Minute
	mostFreeBytes      = 1 << 60 // more than a disk has
)

func (cfg *Config) validateFiles() error {
	errs := []error{
		oneOf("pid", cfg.PID, pidOfCollector, pidOfSource),
		oneOf("hour", cfg.Hour, hourOfFinishedAt, hourOfWriting),
		oneOf("fsync", cfg.Fsync, fsyncNever, fsyncInterval, fsyncAlways),
		oneOf("compression", cfg.Compression, compressionNone, compressionZstd),
	}
	if cfg.MaxRecordBytes < 1 || cfg.MaxRecordBytes > mostRecordBytes {
		errs = append(errs, fmt.Errorf("max_record_bytes is %d: it must be above 0 and at most %d", cfg.MaxRecordBytes, mostRecordBytes))
	}
	if cfg.MaxOpenFiles < 1 || cfg.MaxOpenFiles > mostOpenFiles {
		errs = append(errs, fmt.Errorf("max_open_files is %d: it must be above 0 and at most %d", cfg.MaxOpenFiles, mostOpenFiles))
	}
	if cfg.FsyncInterval < leastFsyncInterval {
		errs = append(errs, fmt.Errorf("fsync_interval is %v: it must be at least %v", cfg.FsyncInterval, leastFsyncInterval))
	}
	return errors.Join(errs...)
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %q: it must be one of %q", field, value, allowed)
}

func (r *RetentionConfig) validate() error {
	var errs []error
	if r.MaxAge != 0 && r.MaxAge < leastAge {
		errs = append(errs, fmt.Errorf("retention.max_age is %v: it must be 0 (for ever) or at least %v", r.MaxAge, leastAge))
	}
	if r.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("retention.max_bytes is %d: it must be 0 (no limit) or above", r.MaxBytes))
	}
	if r.MinFreeBytes < 0 || r.MinFreeBytes > mostFreeBytes {
		errs = append(errs, fmt.Errorf("retention.min_free_bytes is %d: it must be 0 (no limit) or above, and at most %d",
			r.MinFreeBytes, int64(mostFreeBytes)))
	}
	return errors.Join(errs...)
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
