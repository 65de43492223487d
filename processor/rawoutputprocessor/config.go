package rawoutputprocessor

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
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

	// KeepChunks passes the chunks and request ends on too, beside the records made of them (default false).
	KeepChunks bool `mapstructure:"keep_chunks"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// What the limits may be: frames end at 32-bit offsets into an output's text, with room for the record that makes it too
// large; and a timer should not run all the time.
const (
	mostOutputBytes = 1 << 30
	leastIdle       = time.Millisecond
)

// Validate implements confmap.Validator.
func (cfg *Config) Validate() error {
	return errors.Join(
		positive("max_pending", int64(cfg.MaxPending), "the number of outputs in flight"),
		positive("max_pending_bytes", cfg.MaxPendingBytes, "bytes"),
		positive("max_output_bytes", cfg.MaxOutputBytes, "bytes"),
		cfg.validateOutputBytes(),
		cfg.validateIdleTimeout(),
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

func (cfg *Config) validateIdleTimeout() error {
	if cfg.IdleTimeout == 0 || cfg.IdleTimeout >= leastIdle {
		return nil
	}
	return fmt.Errorf("idle_timeout is %v: it must be 0 (never) or at least %v", cfg.IdleTimeout, leastIdle)
}

func createDefaultConfig() component.Config {
	return &Config{
		MaxPending:      4096,
		MaxPendingBytes: 256 << 20,
		MaxOutputBytes:  16 << 20,
		IdleTimeout:     10 * time.Minute,
	}
}
