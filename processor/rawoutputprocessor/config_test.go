package rawoutputprocessor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor/internal/metadata"
)

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		want *Config
		err  string
	}{
		"": {want: &Config{
			MaxPending: 4096, MaxPendingBytes: 256 << 20, MaxOutputBytes: 16 << 20, IdleTimeout: 10 * time.Minute,
			GapTimeout: 30 * time.Second, EndedCacheSize: 16384,
		}},
		"all": {want: &Config{
			MaxPending: 100, MaxPendingBytes: 1 << 20, MaxOutputBytes: 1 << 16, IdleTimeout: 30 * time.Second,
			GapTimeout: time.Minute, EndedCacheSize: 100, FrameTimes: true, KeepChunks: true, PackedRecords: true,
		}},
		"never_idle": {want: &Config{
			MaxPending: 4096, MaxPendingBytes: 256 << 20, MaxOutputBytes: 16 << 20, GapTimeout: 30 * time.Second,
		}},
		"no_outputs":     {err: "max_pending is 0: it must be above 0 (the number of outputs in flight)"},
		"no_bytes":       {err: "max_pending_bytes is -1: it must be above 0 (bytes)"},
		"huge_output":    {err: "max_output_bytes is 1073741825: it must be at most 1073741824 (1 GiB)"},
		"negative_idle":  {err: "idle_timeout is -1s: it must be 0 (never) or at least 1ms"},
		"no_gap":         {err: "gap_timeout is 0s: it must be at least 1ms"},
		"negative_ended": {err: "ended_cache_size is -1: it must be 0 (none) or the number of ended outputs to remember"},
		"unknown":        {err: "max_pendings"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, name)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func load(t *testing.T, name string) (*Config, error) {
	file, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	section, err := file.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := section.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}
