package rawoutputexporter

import (
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"

	"github.com/otel-rawoutput/rawoutput/internal/hourly"
)

// shared is what the exporters of one configuration have in common: the Collector makes one for logs and one for traces,
// but to its users they are one, that writes to one place, counts together and says a thing once.
type shared struct {
	writer    *hourly.Writer
	telemetry *telemetry
	announced sync.Once
	users     int // guarded by inUse.mu
}

// inUse has what is shared, for each configuration with exporters that are not shut down. The Collector gives the exporters
// of one component the same configuration.
var inUse = struct {
	mu       sync.Mutex
	byConfig map[component.Config]*shared
}{byConfig: map[component.Config]*shared{}}

// acquire returns what the exporters of the configuration share. Each of them must release it.
func acquire(cfg *Config, set exporter.Settings) (*shared, error) {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	s, ok := inUse.byConfig[cfg]
	if !ok {
		var err error
		if s, err = newShared(cfg, set); err != nil {
			return nil, err
		}
		inUse.byConfig[cfg] = s
	}
	s.users++
	return s, nil
}

func newShared(cfg *Config, set exporter.Settings) (*shared, error) {
	permissions, err := cfg.permissions()
	if err != nil {
		return nil, err
	}
	telemetry, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &shared{
		writer:    hourly.NewWriter(cfg.Directory, os.Getpid(), permissions, hourly.System()),
		telemetry: telemetry,
	}, nil
}

// release undoes one acquire.
func (s *shared) release(cfg *Config) {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	s.users--
	if s.users == 0 {
		delete(inUse.byConfig, cfg)
	}
}
