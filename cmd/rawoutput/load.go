package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otel-rawoutput/rawoutput/internal/load"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

const loadLong = `Load sends made-up outputs to an OTLP endpoint, as several servers would, and says how many chunks a second that were.

Chunks are numbered, and full texts are on final chunks. With --verify it then reads the files that the Collector writes,
and checks that each output is there once, with its exact text, frames and token ids.

Exit status: 0, everything was sent, and is right where it was to be verified; 1, it was not; 2, a flag is wrong and nothing
was sent.`

const loadExample = `  # as fast as possible into a Collector on this machine, which writes to /var/lib/raw-output
  rawoutput load --verify /var/lib/raw-output

  # 5,000 chunks a second, 20 a record, two outputs a request, one request of ten aborted
  rawoutput load --rate 5000 --chunks-per-record 20 --n 2 --aborted 0.1

  # a bad network
  rawoutput load --copies 0.2 --disorder 50`

// loadFlags are the flags of load.
type loadFlags struct {
	connection
	plan          load.Plan
	verify        string
	verifyTimeout time.Duration
}

func newLoad() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:     "load",
		Short:   "Send made-up outputs to an OTLP endpoint, and check what is written of them",
		Long:    loadLong,
		Example: loadExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.connection.register(flags)
	flags.IntVar(&f.plan.Outputs, "outputs", 1000, "outputs in all")
	flags.IntVar(&f.plan.InFlight, "in-flight", 64, "outputs in flight at once")
	flags.IntVar(&f.plan.N, "n", 1, "outputs a request")
	flags.IntVar(&f.plan.Chunks, "chunks", 200, "chunks an output")
	flags.IntVar(&f.plan.ChunksPerRecord, "chunks-per-record", 1, "chunks a record; above 1 they are packed")
	flags.IntVar(&f.plan.Senders, "senders", 4, "servers, each with a connection and a service.instance.id of its own")
	flags.IntVar(&f.plan.BatchSize, "batch-size", 100, "records a request to the endpoint")
	flags.Float64Var(&f.plan.Aborted, "aborted", 0, "the `share` of requests that are aborted, 0 to 1")
	flags.Float64Var(&f.plan.Copies, "copies", 0, "the `share` of records that are sent twice, 0 to 1")
	flags.IntVar(&f.plan.Disorder, "disorder", 0, "how many `records` late a record may come")
	flags.Float64Var(&f.plan.Rate, "rate", 0, "chunks a second; 0 is as fast as possible")
	flags.Uint64Var(&f.plan.Seed, "seed", 1, "of what is left to chance: copies and disorder")
	flags.StringVar(&f.verify, "verify", "", "the `directory` that the Collector writes to: check what is written")
	flags.DurationVar(&f.verifyTimeout, "verify-timeout", 30*time.Second, "how long to wait for outputs that are not there yet")
	return cmd
}

func (f *loadFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	f.plan.Run = "load-" + strings.ToLower(rand.Text()[:8])
	f.plan.Signal = replay.Signal(f.signal)
	f.plan.Timeout = f.timeout
	f.plan.Resource = map[string]string{"service.name": "rawoutput-load"}
	maps.Copy(f.plan.Resource, f.resource)

	bar := progress(cmd.ErrOrStderr(), f.plan.Outputs*f.plan.Chunks, "chunks")
	f.plan.Sent = func(n int) { _ = bar.Add(n) }
	result, err := load.Run(cmd.Context(), f.plan, func() (otlpclient.Client, error) { return f.client() })
	_ = bar.Exit()
	fmt.Fprintf(cmd.OutOrStdout(), "sent %d chunks in %d records and %d requests in %.1f s: %.0f chunks/s\n",
		result.Chunks, result.Records, result.Requests, result.Took.Seconds(), float64(result.Chunks)/result.Took.Seconds())
	if err != nil {
		return &notSentError{err}
	}
	return f.verifyWritten(cmd)
}

func (f *loadFlags) verifyWritten(cmd *cobra.Command) error {
	if f.verify == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.verifyTimeout)
	defer cancel()
	if err := load.Verify(ctx, &f.plan.Shape, f.verify); err != nil {
		return &notSentError{err}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d outputs are in %s, each once, with its exact text\n", f.plan.Outputs, f.verify)
	return nil
}

func (f *loadFlags) check() error {
	if err := f.connection.check(); err != nil {
		return err
	}
	for _, count := range []struct {
		flag  string
		value int
		least int
	}{
		{"--outputs", f.plan.Outputs, 1},
		{"--in-flight", f.plan.InFlight, 1},
		{"--n", f.plan.N, 1},
		{"--chunks", f.plan.Chunks, 1},
		{"--chunks-per-record", f.plan.ChunksPerRecord, 1},
		{"--senders", f.plan.Senders, 1},
		{"--batch-size", f.plan.BatchSize, 1},
		{"--disorder", f.plan.Disorder, 0},
	} {
		if count.value < count.least {
			return fmt.Errorf("%s is %d: it must be at least %d", count.flag, count.value, count.least)
		}
	}
	for flag, share := range map[string]float64{"--aborted": f.plan.Aborted, "--copies": f.plan.Copies} {
		if !(share >= 0 && share <= 1) { // also where it is no number
			return fmt.Errorf("%s is %v: it must be 0 to 1", flag, share)
		}
	}
	switch {
	case !(f.plan.Rate >= 0):
		return fmt.Errorf("--rate is %v: it must be 0 (as fast as possible) or above", f.plan.Rate)
	case f.plan.Outputs%f.plan.N != 0:
		return fmt.Errorf("--outputs is %d: it must be a multiple of --n, %d", f.plan.Outputs, f.plan.N)
	}
	return nil
}
