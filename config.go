package rawoutput

import (
	"github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter"
	"github.com/otel-rawoutput/rawoutput/processor/rawoutputprocessor"
)

// ProcessorConfig is the configuration of the raw_output processor.
type ProcessorConfig = rawoutputprocessor.Config

// ExporterConfig is the configuration of the raw_output exporter.
type ExporterConfig = rawoutputexporter.Config
