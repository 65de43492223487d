package rawoutputprocessor

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otel-rawoutput/rawoutput/internal/record"
)

// Config is the configuration of the processor.
type Config struct {
	// MaxPending bounds the outputs in flight (default 4096). One too many, and the least recently updated one is written
	// as it is, with the end reason evicted.
	MaxPending int `mapstructure:"max_pending"`

	// MaxPendingBytes bounds the memory that is kept: outputs in flight and records that the next component refused
	// (default 256 MiB). Beyond it outputs are evicted as for MaxPending.
	MaxPendingBytes int64 `mapstructure:"max_pending_bytes"`

	// MaxOutputBytes bounds the memory of one output (default 16 MiB). An output over it is itself evicted, so that one
	// endless stream does not push out all others.
	MaxOutputBytes int64 `mapstructure:"max_output_bytes"`

	// IdleTimeout is how long, by the Collector's clock, an output waits for its next chunk before it is written with the
	// end reason idle_timeout (default 10m; 0 is for ever).
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`

	// GapTimeout is how long, by the Collector's clock, an output whose final chunk came waits for chunks that are missing
	// before it, and a request end for chunks that it overtook (default 30s, longer than a sender's first retries).
	GapTimeout time.Duration `mapstructure:"gap_timeout"`

	// EndedCacheSize is how many ended outputs are remembered, so that late copies of their chunks begin no new ones (default
	// 16384; 0 is none).
	EndedCacheSize int `mapstructure:"ended_cache_size"`

	// FrameTimes puts the time of each frame on the record (default false).
	FrameTimes bool `mapstructure:"frame_times"`

	// KeepChunks passes the chunks and request ends on too, beside the records made of them (default false).
	KeepChunks bool `mapstructure:"keep_chunks"`

	// PackedRecords has the frames and token ids of records packed, not in arrays (default false): for the raw_output exporter,
	// here or behind another Collector, that costs less.
	PackedRecords bool `mapstructure:"packed_records"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// What the limits may be: frames end at 32-bit offsets into an output's text, with room for the record that makes it too
// large; and a timer should not run all the time.
const (
	mostOutputBytes = 1 << 30
	leastTimeout    = time.Millisecond
)

// Validate implements confmap.Validator.
func (cfg *Config) Validate() error {
	return errors.Join(
		positive("max_pending", int64(cfg.MaxPending), "the number of outputs in flight"),
		positive("max_pending_bytes", cfg.MaxPendingBytes, "bytes"),
		positive("max_output_bytes", cfg.MaxOutputBytes, "bytes"),
		cfg.validateOutputBytes(),
		cfg.validateTimeouts(),
		cfg.validateEndedCacheSize(),
	)
}

func positive(field string, value int64, unit string) error {
	if value > 0 {
		return nil
	}
	return fmt.Errorf("%s is %d: it must be above 0 (%s)", field, value, unit)
}

func (cfg *Config) validateOutputBytes() error {
	if cfg.MaxOutputBytes <= mostOutputBytes {
		return nil
	}
	return fmt.Errorf("max_output_bytes is %d: it must be at most %d (1 GiB)", cfg.MaxOutputBytes, mostOutputBytes)
}

func (cfg *Config) validateTimeouts() error {
	var errs []error
	if cfg.IdleTimeout != 0 && cfg.IdleTimeout < leastTimeout {
		errs = append(errs, fmt.Errorf("idle_timeout is %v: it must be 0 (never) or at least %v", cfg.IdleTimeout, leastTimeout))
	}
	if cfg.GapTimeout < leastTimeout {
		errs = append(errs, fmt.Errorf("gap_timeout is %v: it must be at least %v", cfg.GapTimeout, leastTimeout))
	}
	return errors.Join(errs...)
}

func (cfg *Config) validateEndedCacheSize() error {
	if cfg.EndedCacheSize >= 0 {
		return nil
	}
	return fmt.Errorf("ended_cache_size is %d: it must be 0 (none) or the number of ended outputs to remember", cfg.EndedCacheSize)
}

func createDefaultConfig() component.Config {
	return &Config{
		MaxPending:      4096,
		MaxPendingBytes: 256 << 20,
		MaxOutputBytes:  16 << 20,
		IdleTimeout:     10 * time.Minute,
		GapTimeout:      30 * time.Second,
		EndedCacheSize:  16384,
	}
}

// form is how records have their frames and token ids.
func (cfg *Config) form() record.Form {
	if cfg.PackedRecords {
		return record.Packed
	}
	return record.Arrays
}
