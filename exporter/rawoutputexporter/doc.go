//go:generate mdatagen metadata.yaml

// Package rawoutputexporter writes raw-output records, of log records or spans, to hourly files of JSON lines. It fails no
// sender: a record is in the file, or is counted as dropped with its reason, when a call returns.
//
// A batch goes through it in this order:
//
//  1. With a sending_queue it waits there; what the queue has no room for is dropped (exporter.go).
//  2. Its records are encoded, in memory, as the lines of each hour (encode.go).
//  3. The lines of each hour are written at once, and again while that fails and patience lasts (write.go).
//
// Exporters of one directory share its files (files.go). What is on disk is in FORMAT.md.
package rawoutputexporter // import "github.com/otel-rawoutput/rawoutput/exporter/rawoutputexporter"
