package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

const replayLong = `Replay sends a recorded stream of an inference server to an OTLP endpoint, as the server would have sent it.

The file has one JSON object a line, one for each call of the server's hook, as in testdata/conformance:

  {"type":"chunk","time_unix_nano":"1793769153123456000","request_id":8,"disagg_request_id":null,"output_index":0,
   "text_diff":"<tool","text":"<tool","token_ids_diff":[11],"is_final":false,"aborted":false,"streaming":true}
  {"type":"request_end","time_unix_nano":"1793769153131593000","request_id":8,"reason":"client disconnected"}

(each on one line; - reads standard input). Batches go out one after the other, each once the one before was answered, so
that the order is kept. The times in the records are those of the file, also where they are sent at once.

Exit status: 0, everything was sent; 1, not everything was sent; 2, a flag or the file is wrong and nothing was sent.`

const replayExample = `  # into a Collector on this machine
  rawoutput replay testdata/sample.jsonl

  # as spans over HTTP, ten times as fast as it happened
  rawoutput replay --signal traces --protocol http --speed 10 events.jsonl

  # up to 20 chunks a record, packed, full texts on final chunks only
  rawoutput replay --form packed --chunks-per-record 20 --full-text final events.jsonl`

// replayFlags are the flags of replay.
type replayFlags struct {
	connection
	form, fullText             string
	batchSize, chunksPerRecord int
	numbered                   bool
	speed                      float64
}

// notSentError says that not everything was sent.
type notSentError struct{ error }

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:     "replay FILE",
		Short:   "Send a recorded stream to an OTLP endpoint",
		Long:    replayLong,
		Example: replayExample,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	f.connection.register(flags)
	flags.IntVar(&f.batchSize, "batch-size", 100, "records a batch")
	flags.Float64Var(&f.speed, "speed", 0, "1 is the pace of the recorded times, 10 ten times as fast, 0 at once")
	flags.StringVar(&f.form, "form", "single", "`single` (one chunk a record), array or packed (several chunks a record)")
	flags.IntVar(&f.chunksPerRecord, "chunks-per-record", 20, "for --form array and packed: the most chunks a record")
	flags.StringVar(&f.fullText, "full-text", "every", "which chunks carry the full text: `every`, final or never")
	flags.BoolVar(&f.numbered, "numbered", false, "number the chunks (chunk_index), and count them on request ends (chunk_counts)")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	events, err := readStream(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	defer client.Close()

	bar := progress(cmd.ErrOrStderr(), len(events), "events")
	sent, err := replay.Send(cmd.Context(), client, replay.Records(events, f.options()), replay.Plan{
		Signal:    replay.Signal(f.signal),
		BatchSize: f.batchSize,
		Speed:     f.speed,
		Resource:  f.resourceAttributes(),
		Timeout:   f.timeout,
		Sent:      func(n int) { _ = bar.Add(n) },
	})
	_ = bar.Exit()
	fmt.Fprintf(cmd.OutOrStdout(), "sent %d of %d events\n", sent, len(events))
	if err != nil {
		return &notSentError{err}
	}
	return nil
}

func (f *replayFlags) check() error {
	if err := f.connection.check(); err != nil {
		return err
	}
	for _, choice := range []choice{
		{"--form", f.form, []string{"single", "array", "packed"}},
		{"--full-text", f.fullText, []string{"every", "final", "never"}},
	} {
		if err := choice.check(); err != nil {
			return err
		}
	}
	switch {
	case f.batchSize < 1:
		return fmt.Errorf("--batch-size is %d: it must be at least 1", f.batchSize)
	case f.chunksPerRecord < 1:
		return fmt.Errorf("--chunks-per-record is %d: it must be at least 1", f.chunksPerRecord)
	case !(f.speed >= 0): // also where it is no number
		return fmt.Errorf("--speed is %v: it must be 0 (at once) or above", f.speed)
	}
	return nil
}

func readStream(stdin io.Reader, path string) ([]replay.Event, error) {
	if path == "-" {
		return replay.Read(stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	events, err := replay.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return events, nil
}

func (f *replayFlags) options() replay.Options {
	return replay.Options{
		Form: replay.Form(f.form), ChunksPerRecord: f.chunksPerRecord, FullText: replay.FullText(f.fullText),
		Numbered: f.numbered,
	}
}

// resourceAttributes are those of the flags, and a source of its own for each run: the same file may be sent twice.
func (f *replayFlags) resourceAttributes() map[string]string {
	attributes := map[string]string{"service.name": "rawoutput-replay", "service.instance.id": rand.Text()}
	maps.Copy(attributes, f.resource)
	return attributes
}

// progress returns a bar, on a terminal; elsewhere it is not seen.
func progress(w io.Writer, n int, of string) *progressbar.ProgressBar {
	file, ok := w.(*os.File)
	visible := ok && term.IsTerminal(int(file.Fd()))
	return progressbar.NewOptions(n,
		progressbar.OptionSetWriter(w), progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription(of), progressbar.OptionShowCount(),
		progressbar.OptionOnCompletion(func() {
			if visible {
				fmt.Fprintln(w)
			}
		}))
}
