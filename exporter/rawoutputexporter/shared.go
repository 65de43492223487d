package rawoutputexporter

import (
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
)

// shared is what the exporters of one configuration have in common: the Collector makes one for logs and one for traces,
// but to its users they are one, that writes to one place, counts together and says a thing once.
type shared struct {
	files     *files // nil where the exporter is switched off
	telemetry *telemetry
	announced sync.Once
	openToAll sync.Once // the warning that others may write to the directory
}

// sharedInUse has what is shared, for each configuration with exporters that are not shut down. The Collector gives the
// exporters of one component the same configuration.
var sharedInUse inUse[component.Config, *shared]

// acquire returns what the exporters of the configuration share. Each of them must release it.
func acquire(cfg *Config, set exporter.Settings) (*shared, error) {
	return sharedInUse.acquire(cfg, func() (*shared, error) { return newShared(cfg, set) })
}

func newShared(cfg *Config, set exporter.Settings) (*shared, error) {
	telemetry, err := newTelemetry(set.TelemetrySettings, cfg.Directory)
	if err != nil {
		return nil, err
	}
	s := &shared{telemetry: telemetry}
	if cfg.Directory == "" {
		return s, nil
	}
	s.files, err = acquireFiles(cfg, telemetry)
	return s, err
}

// release undoes one acquire.
func (s *shared) release(cfg *Config) {
	if sharedInUse.release(cfg) && s.files != nil {
		s.files.release()
	}
}
