package rawoutputexporter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadatatest"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
)

// The self metrics.
const (
	writtenMetric = "otelcol_exporter_raw_output_written_records"
	bytesMetric   = "otelcol_exporter_raw_output_written_bytes"
	droppedMetric = "otelcol_exporter_raw_output_dropped_records"
	skippedMetric = "otelcol_exporter_raw_output_skipped_records"
)

// fakeDisk is a file system in memory whose writes a test can make fail.
type fakeDisk struct {
	*disktest.Disk
	mu       sync.Mutex
	fail     error            // what every write fails with; nil lets all succeed
	failHour map[string]error // what every write to the files of an hour fails with
	attempts int              // to write
}

func newDisk() *fakeDisk {
	d := &fakeDisk{Disk: disktest.New()}
	d.SetFault(d.fault)
	return d
}

func (d *fakeDisk) fault(call disktest.Call, name string) (func(int) int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if call != disktest.Write || !strings.HasSuffix(name, ".jsonl") {
		return nil, nil
	}
	d.attempts++
	return nil, errors.Join(d.fail, d.failHour[path.Dir(name)])
}

func (d *fakeDisk) setFail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// content is what is in the files of an hour.
func (d *fakeDisk) content(hour string) string {
	var content strings.Builder
	for _, name := range d.Files() {
		if path.Dir(name) == hour {
			content.WriteString(d.Content(name))
		}
	}
	return content.String()
}

// host remembers the component's status.
type host struct {
	mu         sync.Mutex
	events     []componentstatus.Status
	extensions map[component.ID]component.Component
}

func (h *host) GetExtensions() map[component.ID]component.Component { return h.extensions }

func (h *host) Report(event *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event.Status())
}

// memoryStore is a storage extension with one client, that keeps what it is given in memory.
type memoryStore struct {
	component.StartFunc
	component.ShutdownFunc
	mu     sync.Mutex
	values map[string][]byte
}

func (s *memoryStore) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return s, nil
}

func (s *memoryStore) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := s.Batch(ctx, op)
	return op.Value, err
}

func (s *memoryStore) Set(ctx context.Context, key string, value []byte) error {
	return s.Batch(ctx, storage.SetOperation(key, value))
}

func (s *memoryStore) Delete(ctx context.Context, key string) error {
	return s.Batch(ctx, storage.DeleteOperation(key))
}

func (s *memoryStore) Batch(_ context.Context, operations ...*storage.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range operations {
		switch op.Type {
		case storage.Get:
			op.Value = s.values[op.Key]
		case storage.Set:
			s.values[op.Key] = op.Value
		case storage.Delete:
			delete(s.values, op.Key)
		}
	}
	return nil
}

func (*memoryStore) Close(context.Context) error { return nil }

// fixture is an exporter for logs that writes to a disk.
type fixture struct {
	exporter.Logs
	inner     *rawOutputExporter[plog.Logs]
	cfg       *Config
	disk      *fakeDisk
	host      *host
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
}

// create makes an exporter that is not started.
func create(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{
		cfg: createDefaultConfig().(*Config), disk: newDisk(),
		host: &host{}, telemetry: componenttest.NewTelemetry(),
	}
	t.Cleanup(func() { assert.NoError(t, f.telemetry.Shutdown(context.Background())) })
	f.cfg.Directory = "on the disk"
	if change != nil {
		change(f.cfg)
	}
	created, err := createLogs(t.Context(), f.settings(), f.cfg)
	require.NoError(t, err)
	f.Logs, f.inner = created, created.(logsExporter).rawOutputExporter
	if f.cfg.Directory == "on the disk" {
		f.inner.useDisk(t, f.disk.Process())
	}
	return f
}

// useDisk lets the exporter write to a disk in memory.
func (s *shared) useDisk(t testing.TB, d *disktest.Process) {
	t.Helper()
	inMemory := newFiles(d, s.files.settings, s.telemetry)
	s.files.writer, s.files.keeper = inMemory.writer, inMemory.keeper
}

func (f *fixture) settings() exporter.Settings {
	core, logs := observer.New(zapcore.DebugLevel)
	f.logs = logs
	set := metadatatest.NewSettings(f.telemetry)
	set.Logger = zap.New(core)
	return set
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := create(t, change)
	require.NoError(t, f.Start(t.Context(), f.host))
	return f
}

func (f *fixture) shutdown(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Shutdown(context.Background()))
}

func (f *fixture) total(t *testing.T, metric string) int {
	t.Helper()
	return metrictest.Total(t, f.telemetry, metric)
}

func (f *fixture) dropped(t *testing.T) map[string]int {
	t.Helper()
	return metrictest.NonZero(t, f.telemetry, droppedMetric)
}

// event adds an event to a batch.
type event func(plog.LogRecord)

// finishedAt is the time of the records in tests: in the hour 2026-11-04T05.
const (
	finishedAt = 1793769153123456000
	theHour    = "2026-11-04T05"
)

func batch(events ...event) plog.Logs {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, add := range events {
		record := records.AppendEmpty()
		record.SetTimestamp(finishedAt)
		add(record)
	}
	return logs
}

// recordOf is the least that is a record.
func recordOf(request, text string) event {
	return func(r plog.LogRecord) {
		r.SetEventName(contract.EventRecord)
		r.Attributes().PutStr(contract.RequestID, request)
		r.Attributes().PutStr(contract.Text, text)
	}
}

func other(r plog.LogRecord) { r.Body().SetStr("not ours") }

func malformedRecord(r plog.LogRecord) { r.SetEventName(contract.EventRecord) }

// line is the line of recordOf.
func line(request, text string) string {
	return fmt.Sprintf(`{"event":"raw_output","request_id":%q,"disagg_request_id":null,"output_index":0,`+
		`"started_at":"2026-11-04T05:12:33.123456+00:00","finished_at":"2026-11-04T05:12:33.123456+00:00",`+
		`"streaming":false,"aborted":false,"partial":false,"end_reason":null,"text":%q,"frames":[],"frames_consistent":%v,`+
		`"token_ids":[],"num_output_tokens":0}`+"\n", request, text, text == "")
}

// fileLines reads the one file of an hour.
func fileLines(t *testing.T, directory, hour string) []string {
	content, err := os.ReadFile(filepath.Join(directory, hour, fmt.Sprintf("raw-%d.jsonl", os.Getpid())))
	require.NoError(t, err)
	return strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n")
}
