package rawoutputexporter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otel-rawoutput/rawoutput/internal/disk/disktest"
)

// inHour is a record that ended that many hours later.
func inHour(later int) event {
	return func(r plog.LogRecord) {
		recordOf("1", "a")(r)
		r.SetTimestamp(r.Timestamp() + pcommon.Timestamp(time.Duration(later)*time.Hour))
	}
}

// What waits in a queue to be tried again is no secret: the first attempt that fails is reported, and the one that does not.
func TestStatusWhileItIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) {
			cfg.QueueConfig.GetOrInsertDefault()
			cfg.RetryOnFailure.MaxElapsedTime = 0 // for ever
		})
		f.disk.setFail(errBroken)
		require.NoError(t, f.ConsumeLogs(t.Context(), batch(recordOf("1", "a"))))
		synctest.Wait()
		assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, f.host.events)
		assert.Equal(t, 1, f.logs.FilterMessage("Raw-output records can't be written").Len())
		time.Sleep(time.Hour)
		assert.Len(t, f.host.events, 1, "said once")
		f.disk.setFail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.events)
		assert.Equal(t, 1, f.total(t, writtenMetric))
		f.shutdown(t)
	})
}

// When Shutdown has lost patience no further hour of a batch is begun: it might have thousands.
func TestShutdownBetweenHours(t *testing.T) {
	f := newFixture(t, nil)
	writes := 0
	f.disk.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
		if call == disktest.Write {
			if writes++; writes == 2 {
				f.inner.end(errStopped)
			}
		}
		return nil, nil
	})
	require.NoError(t, f.ConsumeLogs(t.Context(), batch(inHour(0), inHour(1), inHour(2), inHour(3))))
	assert.Equal(t, 2, f.total(t, writtenMetric))
	assert.Equal(t, map[string]int{"shutdown": 2}, f.dropped(t))
	f.shutdown(t)
}

// A disk that hangs does not hold up Shutdown for ever.
func TestShutdownWhileTheDiskHangs(t *testing.T) {
	f := newFixture(t, nil)
	hanging, goOn := make(chan struct{}), make(chan struct{})
	f.disk.SetFault(func(call disktest.Call, _ string) (func(int) int, error) {
		if call == disktest.Write {
			close(hanging)
			<-goOn
		}
		return nil, nil
	})
	consumed := make(chan error)
	go func() { consumed <- f.ConsumeLogs(context.Background(), batch(recordOf("1", "a"))) }()
	<-hanging
	lost := errors.New("patience is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	assert.ErrorIs(t, f.Shutdown(ctx), lost)
	close(goOn)
	assert.NoError(t, <-consumed)
	assert.Equal(t, 1, f.total(t, writtenMetric), "what was under way is not counted as lost")
}
