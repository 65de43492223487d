package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWrongConfig starts the Collector with settings that can't be meant, and expects it to refuse with a sentence that
// names the field, the value and what is allowed.
func TestWrongConfig(t *testing.T) {
	aFile := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(aFile, nil, 0o600))
	for name, test := range map[string]struct {
		change func(*pipeline)
		want   []string
	}{
		"negative max_pending": {
			func(p *pipeline) { p.processor = "max_pending: -1" },
			[]string{"max_pending is -1", "must be above 0"},
		},
		"zero max_pending": {
			func(p *pipeline) { p.processor = "max_pending: 0" },
			[]string{"max_pending is 0", "must be above 0"},
		},
		"zero max_pending_bytes": {
			func(p *pipeline) { p.processor = "max_pending_bytes: 0" },
			[]string{"max_pending_bytes is 0", "must be above 0"},
		},
		"negative max_output_bytes": {
			func(p *pipeline) { p.processor = "max_output_bytes: -5" },
			[]string{"max_output_bytes is -5", "must be above 0"},
		},
		"huge max_output_bytes": {
			func(p *pipeline) { p.processor = "max_output_bytes: 1073741825" },
			[]string{"max_output_bytes is 1073741825", "at most 1073741824"},
		},
		"negative idle_timeout": {
			func(p *pipeline) { p.processor = "idle_timeout: -1s" },
			[]string{"idle_timeout is -1s", "must be 0 (never) or at least 1ms"},
		},
		"a file where the directory should be": {
			func(p *pipeline) { p.directory = aFile },
			[]string{"directory is \"" + aFile + "\"", "it must be a directory"},
		},
		"a device where the directory should be": {
			func(p *pipeline) { p.directory = "/dev/full" },
			[]string{"directory is \"/dev/full\"", "it must be a directory"},
		},
		"fsync that is not known": {
			func(p *pipeline) { p.exporter = "fsync: sometimes" },
			[]string{`fsync is "sometimes"`, `must be one of ["never" "interval" "always"]`},
		},
		"no open files": {
			func(p *pipeline) { p.exporter = "max_open_files: 0" },
			[]string{"max_open_files is 0", "must be above 0 and at most 4096"},
		},
		"negative retention": {
			func(p *pipeline) { p.exporter = "retention: {max_bytes: -1}" },
			[]string{"retention.max_bytes is -1", "must be 0 (no limit) or above"},
		},
		"file permissions without owner write": {
			func(p *pipeline) { p.exporter = `file_permissions: "0440"` },
			[]string{`file_permissions is "0440"`, "must let the owner read and write, that is include 0600"},
		},
		"directory permissions without owner write": {
			func(p *pipeline) { p.exporter = `directory_permissions: "0550"` },
			[]string{`directory_permissions is "0550"`, "must let the owner read and write, that is include 0700"},
		},
		"permissions that are not octal": {
			func(p *pipeline) { p.exporter = `file_permissions: "rw-r-----"` },
			[]string{`file_permissions is "rw-r-----"`, `octal string from "0000" to "0777"`},
		},
		"permissions beyond the nine bits": {
			func(p *pipeline) { p.exporter = `file_permissions: "4640"` },
			[]string{`file_permissions is "4640"`, `octal string from "0000" to "0777"`},
		},
		"retry that a caller would wait for": {
			func(p *pipeline) { p.exporter = `retry_on_failure: {max_elapsed_time: 5m}` },
			[]string{"retry_on_failure.max_elapsed_time is 5m0s", "at most 2s"},
		},
		"endless retry that a caller would wait for": {
			func(p *pipeline) {
				p.exporter = `retry_on_failure: {max_elapsed_time: 0}, sending_queue: {wait_for_result: true}`
			},
			[]string{"retry_on_failure.max_elapsed_time is 0s", "at most 2s"},
		},
		"an unknown field": {
			func(p *pipeline) { p.processor = "max_pendings: 5" },
			[]string{"max_pendings"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := builtPath(t, collectorVariable)
			p := onePipeline(t, "logs")
			test.change(&p)
			output, err := exec.CommandContext(background(t), path, "--config="+configOf(p)).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "it must not start")
			for _, want := range test.want {
				assert.Contains(t, string(output), want)
			}
		})
	}
}
