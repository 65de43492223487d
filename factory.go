package rawoutput

import (
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/processor"

	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor"
)

// NewProcessorFactory returns the factory of the raw_output processor, which assembles chunks into records.
func NewProcessorFactory() processor.Factory { return rawoutputprocessor.NewFactory() }

// NewExporterFactory returns the factory of the raw_output exporter, which writes records to hourly files.
func NewExporterFactory() exporter.Factory { return rawoutputexporter.NewFactory() }
