package rawoutputexporter

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
)

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		want func(*Config) // changes the default to what is expected
		err  string
	}{
		"": {want: func(*Config) {}},
		"all": {want: func(cfg *Config) {
			cfg.Directory = "/var/lib/raw-output"
			cfg.FilePermissions, cfg.DirectoryPermissions = "0600", "0700"
			cfg.Include = []string{"attributes", "delivery", "frame_times", "resource", "trace"}
			cfg.PID, cfg.Hour = "source", "written"
			cfg.MaxRecordBytes, cfg.MaxOpenFiles = 1000, 3
			cfg.Fsync, cfg.FsyncInterval = "always", 5*time.Second
			cfg.Retention = RetentionConfig{MaxAge: 720 * time.Hour, MaxBytes: 100_000_000_000, MinFreeBytes: 1_000_000_000}
			cfg.Compression = "zstd"
			cfg.RetryOnStart = true
			cfg.RetryOnFailure.InitialInterval = time.Second
			cfg.RetryOnFailure.MaxInterval = 10 * time.Second
			cfg.RetryOnFailure.MaxElapsedTime = 10 * time.Minute
			cfg.QueueConfig.GetOrInsertDefault().QueueSize = 50
		}},
		"no_retry": {want: func(cfg *Config) {
			cfg.RetryOnFailure.Enabled = false
			cfg.RetryOnFailure.MaxElapsedTime = 5 * time.Minute
		}},
		"no_owner_write":        {err: `file_permissions is "0440": it must let the owner read and write, that is include 0600`},
		"no_owner_search":       {err: `directory_permissions is "0640": it must let the owner read and write, that is include 0700`},
		"unknown_include":       {err: `include has "host": it may have delivery, resource, trace, frame_times and attributes`},
		"no_octal":              {err: `file_permissions is "0888": it must be an octal string from "0000" to "0777"`},
		"too_many_bits":         {err: `directory_permissions is "01750": it must be an octal string from "0000" to "0777"`},
		"long_wait":             {err: "retry_on_failure.max_elapsed_time is 2.001s"},
		"endless_wait":          {err: "retry_on_failure.max_elapsed_time is 0s"},
		"long_wait_for_result":  {err: "must be above 0 and at most 2s"},
		"no_queue":              {err: "sending_queue.queue_size is 0: it must be above 0"},
		"no_consumers":          {err: "sending_queue.num_consumers is -1: it must be above 0"},
		"no_quotes":             {err: `file_permissions is the number 416: it must be an octal string in quotes, from "0000" to "0777"`},
		"no_interval":           {err: "retry_on_failure.initial_interval is 0s: it must be at least 10ms"},
		"negative_interval":     {err: "retry_on_failure.initial_interval is -1s: it must be at least 10ms"},
		"max_below_initial":     {err: "retry_on_failure.max_interval is 500ms: it must be at least initial_interval, which is 1s"},
		"no_number":             {err: "retry_on_failure.randomization_factor is NaN: it must be from 0 to 1"},
		"batch_of_bytes":        {err: "sending_queue.batch.max_size is 1000000 bytes: it must be 0 with sizer bytes"},
		"pid_of_nobody":         {err: `pid is "nobody": it must be one of ["collector" "source"]`},
		"other_hour":            {err: `hour is "started_at": it must be one of ["finished_at" "written"]`},
		"no_record_bytes":       {err: "max_record_bytes is 0: it must be above 0 and at most 1073741824"},
		"too_many_record_bytes": {err: "max_record_bytes is 1073741825: it must be above 0"},
		"no_open_files":         {err: "max_open_files is 0: it must be above 0 and at most 4096"},
		"too_many_open_files":   {err: "max_open_files is 4097"},
		"other_fsync":           {err: `fsync is "sometimes": it must be one of ["never" "interval" "always"]`},
		"no_fsync_interval":     {err: "fsync_interval is 0s: it must be at least 10ms"},
		"short_age":             {err: "retention.max_age is 59s: it must be 0 (for ever) or at least 1m0s"},
		"negative_bytes":        {err: "retention.max_bytes is -1: it must be 0 (no limit) or above"},
		"negative_free_bytes":   {err: "retention.min_free_bytes is -1: it must be 0 (no limit) or above"},
		"too_many_free_bytes":   {err: "retention.min_free_bytes is 9223372036854775807: it must be 0 (no limit) or above, and at most 1152921504606846976"},
		"unknown_retention":     {err: "max_files"},
		"other_compression":     {err: `compression is "gzip": it must be one of ["none" "zstd"]`},
		"shrinking":             {err: "retry_on_failure.multiplier is 0.5: it must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, name)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			want := createDefaultConfig().(*Config)
			test.want(want)
			assert.Equal(t, want, got)
		})
	}
}

func TestDefaults(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	assert.Empty(t, cfg.Directory)
	assert.Equal(t, "0640", cfg.FilePermissions)
	assert.Equal(t, "0750", cfg.DirectoryPermissions)
	assert.True(t, cfg.RetryOnFailure.Enabled)
	assert.Equal(t, 2*time.Second, cfg.RetryOnFailure.MaxElapsedTime)
	assert.False(t, cfg.QueueConfig.HasValue())
	assert.Equal(t, "interval", cfg.Fsync)
	assert.Equal(t, time.Second, cfg.FsyncInterval)
	assert.Equal(t, 64<<20, cfg.MaxRecordBytes)
	assert.Equal(t, 16, cfg.MaxOpenFiles)
	assert.Equal(t, RetentionConfig{}, cfg.Retention)
	assert.Equal(t, "none", cfg.Compression)
	assert.False(t, cfg.RetryOnStart)
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
