package rawoutput

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
)

// TestOptionTables holds the tables of options against the configurations: every option is there, in order, and the README
// says the same as the component's own.
func TestOptionTables(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for folder, cfg := range map[string]component.Config{
		"processor/rawoutputprocessor": NewProcessorFactory().CreateDefaultConfig(),
		"exporter/rawoutputexporter":   NewExporterFactory().CreateDefaultConfig(),
	} {
		t.Run(folder, func(t *testing.T) {
			own, err := os.ReadFile(filepath.Join(folder, "README.md"))
			require.NoError(t, err)
			table := optionTable.FindString(string(own))
			require.NotEmpty(t, table)
			assert.Contains(t, string(readme), table, "the README has the same table")
			var documented []string
			for _, row := range optionRow.FindAllStringSubmatch(table, -1) {
				documented = append(documented, row[1])
			}
			assert.Equal(t, optionsOf(cfg), documented)
		})
	}
}

// TestNothingIsLeftToFillIn finds places in the documents that were to be filled in.
func TestNothingIsLeftToFillIn(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "*/*/README.md"} {
		documents, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, document := range documents {
			content, err := os.ReadFile(document)
			require.NoError(t, err)
			assert.Empty(t, regexp.MustCompile(`@[A-Z]+@|TODO|FIXME`).FindString(string(content)), document)
		}
	}
}

// optionTable is a table of options; optionRow is one of its rows.
var (
	optionTable = regexp.MustCompile(`(?s)\| option \| default .*?\n\n`)
	optionRow   = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*?) \\|")
)

func optionsOf(cfg component.Config) (options []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeOf(cfg).Elem()) {
		if tag := field.Tag.Get("mapstructure"); tag != "" {
			options = append(options, tag)
		}
	}
	return options
}

// TestDefaultsInTables expects the defaults that the tables give as code.
func TestDefaultsInTables(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	processor := NewProcessorFactory().CreateDefaultConfig().(*ProcessorConfig)
	exporter := NewExporterFactory().CreateDefaultConfig().(*ExporterConfig)
	want := map[string]any{
		"max_pending": processor.MaxPending, "max_pending_bytes": processor.MaxPendingBytes, "max_output_bytes": processor.MaxOutputBytes,
		"idle_timeout": strings.TrimSuffix(processor.IdleTimeout.String(), "0s"), "gap_timeout": processor.GapTimeout,
		"ended_cache_size": processor.EndedCacheSize, "frame_times": processor.FrameTimes, "keep_chunks": processor.KeepChunks,
		"packed_records": processor.PackedRecords,
		"pid":            exporter.PID, "hour": exporter.Hour, "max_record_bytes": exporter.MaxRecordBytes, "max_open_files": exporter.MaxOpenFiles,
		"fsync": exporter.Fsync, "fsync_interval": exporter.FsyncInterval, "compression": exporter.Compression,
		"retry_on_start": exporter.RetryOnStart, "file_permissions": exporter.FilePermissions, "directory_permissions": exporter.DirectoryPermissions,
	}
	got := map[string]string{}
	for _, row := range optionRow.FindAllStringSubmatch(string(readme), -1) {
		got[row[1]] = strings.Trim(row[2], "`\"")
	}
	for option, value := range want {
		assert.Equal(t, fmt.Sprint(value), got[option], option)
	}
}
