// Command demo shows the Collector at work: it starts it with the smallest configuration, sends it a short recorded stream,
// and prints the files and the counters. `make run` builds the Collector and runs it.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/collector"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// What the demonstration uses, from the repository's root.
const (
	binary = "dist/otelcol-rawoutput"
	config = "examples/minimal.yaml"
	stream = "testdata/sample.jsonl"
	output = "dist/raw-output"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal("demo: ", err)
	}
}

func run(ctx context.Context) error {
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	// Free ports, so that it runs beside another Collector.
	grpc, err := collector.FreeAddress()
	if err != nil {
		return err
	}
	http, err := collector.FreeAddress()
	if err != nil {
		return err
	}
	c, err := collector.Start(ctx, binary, []string{
		config,
		"yaml:receivers::otlp::protocols::grpc::endpoint: " + grpc,
		"yaml:receivers::otlp::protocols::http::endpoint: " + http,
	}, "TRTLLM_RAW_OUTPUT_DIR="+output)
	if err != nil {
		return err
	}
	defer c.Kill()
	fmt.Printf("%s runs with %s, TRTLLM_RAW_OUTPUT_DIR=%s\n", binary, config, output)

	if err := send(ctx, grpc); err != nil {
		return err
	}
	if err := printFiles(); err != nil {
		return err
	}
	if err := printCounters(ctx, c); err != nil {
		return err
	}
	if err := c.Stop(ctx); err != nil {
		return err
	}
	fmt.Println("\nThe Collector has stopped. The file is still there.")
	return nil
}

func send(ctx context.Context, endpoint string) error {
	file, err := os.Open(stream)
	if err != nil {
		return err
	}
	defer file.Close()
	events, err := replay.Read(file)
	if err != nil {
		return err
	}
	client, err := otlpclient.NewGRPC(otlpclient.Options{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	records := replay.Records(events, replay.Options{Form: replay.Single, FullText: replay.FinalChunk})
	sent, err := replay.Send(ctx, client, records, replay.Plan{
		BatchSize: 10, Timeout: 10 * time.Second, Resource: map[string]string{"service.name": "demo"},
	})
	fmt.Printf("%d events of %s sent to it over OTLP\n", sent, stream)
	return err
}

func printFiles() error {
	return filepath.WalkDir(output, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Printf("\n%s:\n\n%s", path, content)
		return err
	})
}

func printCounters(ctx context.Context, c *collector.Collector) error {
	metrics, err := c.Metrics(ctx)
	if err != nil {
		return err
	}
	fmt.Println("\nThe metrics page:")
	fmt.Println()
	for _, name := range []string{
		"otelcol_processor_raw_output_chunks", "otelcol_exporter_raw_output_written_records", "otelcol_exporter_raw_output_dropped_records",
	} {
		for _, line := range metrics.Lines(name) {
			fmt.Println(line)
		}
	}
	return nil
}
