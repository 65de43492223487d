// Command rawoutput is the tool beside the Collector: it sends recorded and made-up streams to one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses, for scripts.
const (
	exitNotSent = 1 // not everything was sent, or what was written of it is wrong
	exitMisuse  = 2 // a flag, an argument or a file is wrong; nothing was sent
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var notSent *notSentError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &notSent):
		fmt.Fprintln(os.Stderr, "rawoutput:", err)
		return exitNotSent
	default:
		fmt.Fprintf(os.Stderr, "rawoutput: %v\nSee 'rawoutput --help'.\n", err)
		return exitMisuse
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "rawoutput",
		Short:         "Work with the raw outputs of language models",
		Long:          "rawoutput works with the raw outputs of language models and the Collector that records them.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newReplay(), newLoad())
	return root
}
