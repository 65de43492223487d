package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/contract"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
)

// soakVariable makes the long tests long; `make soak` sets it.
const soakVariable = "RAWOUTPUT_SOAK"

// rounds is how often something is done in a short and in a long run.
func rounds(short, long int) int {
	if os.Getenv(soakVariable) != "" {
		return long
	}
	return short
}

// ledger is what a sender knows: the ids of the records that it sent, and whether it was told that they were taken.
type ledger struct {
	mu    sync.Mutex
	sent  int
	acked map[string]bool
}

func newLedger() *ledger { return &ledger{acked: map[string]bool{}} }

// next returns n ids that were not used before.
func (l *ledger) next(n int) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		ids = append(ids, fmt.Sprint("id-", l.sent))
		l.sent++
	}
	return ids
}

func (l *ledger) ack(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.acked[id] = true
	}
}

// deliver sends a batch of n records with that text, and keeps in mind what was acknowledged.
func (l *ledger) deliver(t *testing.T, client otlpclient.Client, n int, text string) error {
	ids := l.next(n)
	err := client.SendLogs(background(t), recordsOf(ids, text))
	if err == nil {
		l.ack(ids)
	}
	return err
}

// recordsOf are records as the processor makes them, of the hour theHour.
func recordsOf(ids []string, text string) plog.Logs {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	records.EnsureCapacity(len(ids))
	for _, id := range ids {
		r := records.AppendEmpty()
		r.SetEventName(contract.EventRecord)
		r.SetTimestamp(pcommon.Timestamp(streamStartedAt))
		r.Attributes().PutStr(contract.RequestID, id)
		r.Attributes().PutStr(contract.Text, text)
	}
	return logs
}

// linesOf returns how often each id is in the files of a directory. Every line must be whole.
func linesOf(t *testing.T, directory string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, path := range filesOf(t, directory) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			var record struct {
				RequestID string `json:"request_id"`
			}
			require.True(t, strings.HasSuffix(line, "\n"), "%s ends within a line", path)
			require.NoError(t, json.Unmarshal([]byte(line), &record), "a broken line in %s", path)
			ids[record.RequestID]++
		}
	}
	return ids
}

func filesOf(t *testing.T, directory string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*", "raw-*.jsonl"))
	require.NoError(t, err)
	return paths
}

// check expects each acknowledged record once, and no other twice.
func (l *ledger) check(t *testing.T, got map[string]int) {
	t.Helper()
	lost := 0
	for id := range l.acked {
		if got[id] == 0 {
			lost++
		}
	}
	assert.Zero(t, lost, "acknowledged and lost, of %d", len(l.acked))
	for id, n := range got {
		if n > 1 {
			assert.Fail(t, "twice", id)
		}
	}
}

// makeOld sets the clock of files back, as if so long had passed.
func makeOld(t *testing.T, paths []string, ago time.Duration) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-ago)))
	}
}
