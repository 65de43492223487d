// Package collector runs a built Collector as a process of its own, for the end-to-end tests and the demonstration.
package collector // import "github.com/otel-rawoutput/rawoutput/internal/collector"

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Collector is a running Collector.
type Collector struct {
	cmd     *exec.Cmd
	metrics string // address of the metrics page
	exited  chan struct{}
	err     error // of the process; good once it exited

	mu  sync.Mutex
	log strings.Builder
}

// ready is what a Collector logs once its pipelines run.
const ready = "Everything is ready"

// Start starts the Collector at that path with these configurations (files, or yaml:… texts), each merged over those before
// it, and waits until its pipelines run. Its metrics page gets a free port. It inherits the environment, and env on top.
func Start(ctx context.Context, path string, configs []string, env ...string) (*Collector, error) {
	return StartWith(ctx, path, configs, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), env...) })
}

// StartWith is Start for what only the command itself can say, in a namespace of its own for example.
func StartWith(ctx context.Context, path string, configs []string, prepare func(*exec.Cmd)) (*Collector, error) {
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	args := make([]string, 0, len(configs)+1)
	for _, config := range append(configs, metricsAt(metrics)) {
		args = append(args, "--config="+config)
	}
	c := &Collector{cmd: ignoringInterrupts(path, args), metrics: metrics, exited: make(chan struct{})}
	prepare(c.cmd)
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	isReady := make(chan struct{})
	go c.follow(stderr, isReady)
	select {
	case <-isReady:
		return c, nil
	case <-c.exited:
		return nil, fmt.Errorf("the Collector did not start: %w\n%s", c.err, c.Log())
	case <-ctx.Done():
		c.Kill()
		return nil, fmt.Errorf("the Collector did not start in time: %w\n%s", ctx.Err(), c.Log())
	}
}

// ignoringInterrupts runs the Collector with SIGINT ignored until it asks for it. It does so only after it logged that it is
// ready: in between any other signal would end it at once.
func ignoringInterrupts(path string, args []string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `trap "" INT; exec "$0" "$@"`, path}, args...)...)
}

func metricsAt(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf("yaml:service::telemetry::metrics::readers: [{pull: {exporter: {prometheus: {host: %s, port: %s}}}}]", host, port)
}

// FreeAddress returns an address of this machine that nobody listens at.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// follow keeps what the Collector logs, says when it is ready, and reaps it.
func (c *Collector) follow(stderr io.Reader, isReady chan<- struct{}) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		c.mu.Lock()
		c.log.WriteString(line)
		c.mu.Unlock()
		if isReady != nil && strings.Contains(line, ready) {
			close(isReady)
			isReady = nil
		}
		if err != nil {
			break
		}
	}
	c.err = c.cmd.Wait()
	close(c.exited)
}

// Log returns what the Collector logged so far.
func (c *Collector) Log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// PID returns the Collector's process id.
func (c *Collector) PID() int { return c.cmd.Process.Pid }

// stopping is what a Collector logs once it was asked to stop.
const stopping = "Received signal from OS"

// Stop asks the Collector to stop and waits until it has. An error says that it stopped with one.
func (c *Collector) Stop(ctx context.Context) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if !strings.Contains(c.Log(), stopping) {
			_ = c.cmd.Process.Signal(os.Interrupt) // it has ended where this fails
		}
		select {
		case <-c.exited:
			return c.err
		case <-ctx.Done():
			c.Kill()
			return ctx.Err()
		case <-again.C:
		}
	}
}

// Kill ends the Collector at once.
func (c *Collector) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// State returns what the system says of the process, which has ended.
func (c *Collector) State() *os.ProcessState { return c.cmd.ProcessState }

// Metrics are the counters and gauges of a metrics page.
type Metrics map[string]*dto.MetricFamily

// Metrics reads the Collector's metrics page.
func (c *Collector) Metrics(ctx context.Context) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// family finds a metric by its name with or without the suffix that Prometheus gives to counters.
func (m Metrics) family(name string) *dto.MetricFamily {
	if family, ok := m[name+"_total"]; ok {
		return family
	}
	return m[name]
}

// Lines returns the series of a metric as the page has them.
func (m Metrics) Lines(name string) []string {
	family := m.family(name)
	var lines []string
	for _, series := range family.GetMetric() {
		var labels []string
		for _, label := range series.GetLabel() {
			labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
		}
		line := family.GetName()
		if len(labels) > 0 {
			line += "{" + strings.Join(labels, ",") + "}"
		}
		lines = append(lines, fmt.Sprintf("%s %v", line, valueOf(series)))
	}
	return lines
}

func valueOf(series *dto.Metric) float64 {
	return series.GetCounter().GetValue() + series.GetGauge().GetValue()
}

// Sum adds up the series of a metric that have all of these labels (name, value, name, value, …). ok is false where there is
// no such series.
func (m Metrics) Sum(name string, labels ...string) (sum float64, ok bool) {
	for _, series := range m.family(name).GetMetric() {
		if hasLabels(series, labels) {
			sum, ok = sum+valueOf(series), true
		}
	}
	return sum, ok
}

func hasLabels(series *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, label := range series.GetLabel() {
			found = found || label.GetName() == labels[i] && label.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
