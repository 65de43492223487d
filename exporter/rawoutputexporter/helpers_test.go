package rawoutputexporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	"github.com/otel-rawoutput/rawoutput/internal/hourly"
	"github.com/otel-rawoutput/rawoutput/internal/metrictest"
)

// The self metrics.
const (
	writtenMetric = "otelcol_exporter_raw_output_written_records"
	bytesMetric   = "otelcol_exporter_raw_output_written_bytes"
	droppedMetric = "otelcol_exporter_raw_output_dropped_records"
	skippedMetric = "otelcol_exporter_raw_output_skipped_records"
)

// disk is a file system in memory that a test can make fail.
type disk struct {
	mu       sync.Mutex
	files    map[string]string
	fail     error // what every opening fails with; nil lets all succeed
	attempts int

	failHour  map[string]error // what opening the file of an hour fails with
	failClose error            // what every closing fails with
}

func (*disk) MakeDirectory(string, fs.FileMode) error { return nil }
func (*disk) Probe(string) error                      { return nil }

func (d *disk) OpenAppend(_, hour, _ string, _ hourly.Permissions) (hourly.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts++
	if err := errors.Join(d.fail, d.failHour[hour]); err != nil {
		return nil, &fs.PathError{Op: "open", Path: hour, Err: err}
	}
	return &diskFile{d, hour}, nil
}

func (d *disk) setFail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func (d *disk) content(hour string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[hour]
}

type diskFile struct {
	disk *disk
	hour string
}

func (f *diskFile) Write(data []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.files[f.hour] += string(data)
	return len(data), nil
}

func (f *diskFile) Size() (int64, error) { return int64(len(f.disk.content(f.hour))), nil }
func (f *diskFile) ReadAt(p []byte, offset int64) (int, error) {
	return strings.NewReader(f.disk.content(f.hour)).ReadAt(p, offset)
}
func (*diskFile) Truncate(int64) error { return nil }
func (f *diskFile) Close() error       { return f.disk.failClose }

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
	disk      *disk
	host      *host
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
}

// create makes an exporter that is not started.
func create(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{
		cfg: createDefaultConfig().(*Config), disk: &disk{files: map[string]string{}},
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
		f.inner.writer = hourly.NewWriter(f.cfg.Directory, 1, hourly.Permissions{}, f.disk)
	}
	return f
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
