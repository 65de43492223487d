// Command bench measures what recording raw output costs a Collector, beside what receiving it costs and beside what others
// do with the same chunks. `make bench-e2e` builds what it needs and runs it.
//
// Each case is a load. Each subject is a Collector with a pipeline. In each round every subject gets the case's load once, one
// subject after the other, so that what disturbs the machine disturbs all of them alike; the table has the medians of the
// rounds. A ratio is one to the receiver alone in the same round. Last, a Collector is left alone, with outputs in flight and
// without. Nothing here is a test: the numbers are of one machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var p places
	flag.StringVar(&p.ours, "collector", "", "the `path` of the Collector that make build leaves")
	flag.StringVar(&p.peers, "peers", "", "the `path` of the Collector with the peers")
	rounds := flag.Int("rounds", 3, "how often each subject gets each case")
	chunks := flag.Int("chunks", 400_000, "chunks a run, or as many more as the case needs")
	flag.StringVar(&p.profiles, "profiles", "", "a `directory` for a CPU profile of our Collector in each case; of the last round")
	idle := flag.Duration("idle", 10*time.Second, "how long to measure a Collector that nothing is sent to; 0 is not at all")
	only := flag.String("cases", ".", "a regular expression: the `cases` to run")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if p.profiles, err = absolute(p.profiles); err != nil {
		return err
	}
	if p.scratch, err = os.MkdirTemp("", "rawoutput-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(p.scratch)
	fmt.Print(head)
	for _, c := range cases {
		if !wanted.MatchString(c.name) {
			continue
		}
		results, err := measure(ctx, p, c, *rounds, *chunks)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		print(os.Stdout, c, results)
	}
	if *idle == 0 || !wanted.MatchString(idleCase) {
		return nil
	}
	if err := printIdle(ctx, os.Stdout, p, *idle); err != nil {
		return fmt.Errorf("%s: %w", idleCase, err)
	}
	return nil
}

// places are the paths that a run needs.
type places struct{ ours, peers, scratch, profiles string }

// absolute returns the absolute path of a directory that is then there; none is none.
func absolute(directory string) (string, error) {
	if directory == "" {
		return "", nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	return filepath.Abs(directory)
}
