package rawoutputexporter

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter/internal/metadata"
	"github.com/otel-rawoutput/rawoutput/internal/contract"
)

// TestConsumeContract is the Collector's check of exporters: each element arrives once, whatever the receiving end answers.
// The check sends events of its own kind, which are made records of on the way in; the receiving end reads the files.
func TestConsumeContract(t *testing.T) {
	for _, signal := range []pipeline.Signal{pipeline.SignalLogs, pipeline.SignalTraces} {
		t.Run(signal.String(), func(t *testing.T) {
			tail := &fileTail{t: t, directory: t.TempDir(), read: map[string]int64{}}
			cfg := createDefaultConfig().(*Config)
			cfg.Directory = tail.directory
			exportertest.CheckConsumeContract(exportertest.CheckConsumeContractParams{
				T: t, NumberOfTestElements: 20, Signal: signal,
				ExporterFactory: recordingFactory(tail), ExporterConfig: cfg,
				ReceiverFactory: tail.factory(), ReceiverConfig: struct{}{},
			})
		})
	}
}

// elementID is the attribute by which the check knows its elements.
const elementID = "test_id"

// recordingFactory makes exporters that make records of the check's elements, and let the tail read what was written.
func recordingFactory(tail *fileTail) exporter.Factory {
	return exporter.NewFactory(metadata.Type, createDefaultConfig,
		exporter.WithLogs(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
			e, err := createLogs(ctx, set, cfg)
			return recordingLogs{e, tail}, err
		}, component.StabilityLevelAlpha),
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
			e, err := createTraces(ctx, set, cfg)
			return recordingTraces{e, tail}, err
		}, component.StabilityLevelAlpha),
	)
}

type recordingLogs struct {
	exporter.Logs
	tail *fileTail
}

func (e recordingLogs) ConsumeLogs(ctx context.Context, batch plog.Logs) error {
	record := batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	record.SetEventName(contract.EventRecord)
	makeRecord(record.Attributes())
	err := e.Logs.ConsumeLogs(ctx, batch)
	e.tail.deliver()
	return err
}

type recordingTraces struct {
	exporter.Traces
	tail *fileTail
}

func (e recordingTraces) ConsumeTraces(ctx context.Context, batch ptrace.Traces) error {
	span := batch.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	span.SetName(contract.EventRecord)
	makeRecord(span.Attributes())
	err := e.Traces.ConsumeTraces(ctx, batch)
	e.tail.deliver()
	return err
}

func makeRecord(attributes pcommon.Map) {
	id, _ := attributes.Get(elementID)
	attributes.PutStr(contract.RequestID, id.Str())
	attributes.PutStr(contract.Text, "text of "+id.Str())
}

// fileTail is the receiving end: it gives each new line of the files to the check's consumer, and again as long as that
// says that it should.
type fileTail struct {
	t         *testing.T
	directory string
	read      map[string]int64
	consume   func(id string) error
}

func (f *fileTail) factory() receiver.Factory {
	return receiver.NewFactory(component.MustNewType("file_tail"), func() component.Config { return struct{}{} },
		receiver.WithLogs(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Logs) (receiver.Logs, error) {
			f.consume = func(id string) error {
				logs := plog.NewLogs()
				logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Attributes().PutStr(elementID, id)
				return next.ConsumeLogs(context.Background(), logs)
			}
			return idle{}, nil
		}, component.StabilityLevelAlpha),
		receiver.WithTraces(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Traces) (receiver.Traces, error) {
			f.consume = func(id string) error {
				traces := ptrace.NewTraces()
				traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().Attributes().PutStr(elementID, id)
				return next.ConsumeTraces(context.Background(), traces)
			}
			return idle{}, nil
		}, component.StabilityLevelAlpha),
	)
}

// idle is a component with nothing to start or stop.
type idle struct {
	component.StartFunc
	component.ShutdownFunc
}

func (f *fileTail) deliver() {
	paths, err := filepath.Glob(filepath.Join(f.directory, "*", "*.jsonl"))
	require.NoError(f.t, err)
	for _, path := range paths {
		f.deliverFrom(path)
	}
}

func (f *fileTail) deliverFrom(path string) {
	file, err := os.Open(path)
	require.NoError(f.t, err)
	defer file.Close()
	_, err = file.Seek(f.read[path], 0)
	require.NoError(f.t, err)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		f.read[path] += int64(len(lines.Bytes())) + 1
		var record struct {
			RequestID string `json:"request_id"`
			Text      string `json:"text"`
		}
		require.NoError(f.t, json.Unmarshal(lines.Bytes(), &record))
		require.Equal(f.t, "text of "+record.RequestID, record.Text)
		for err := f.consume(record.RequestID); err != nil && !consumererror.IsPermanent(err); {
			err = f.consume(record.RequestID)
		}
	}
	require.NoError(f.t, lines.Err())
}
