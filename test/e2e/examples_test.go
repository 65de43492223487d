package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.yaml.in/yaml/v3"

	"github.com/otel-rawoutput/rawoutput/internal/collector"
	"github.com/otel-rawoutput/rawoutput/internal/conformance"
	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
	"github.com/otel-rawoutput/rawoutput/internal/replay"
)

// root is the repository.
const root = "../.."

// validate lets the Collector check configurations, each merged over those before it.
func validate(t *testing.T, configs ...string) {
	t.Helper()
	args := []string{"validate"}
	for _, config := range configs {
		args = append(args, "--config="+config)
	}
	cmd := exec.CommandContext(background(t), builtPath(t, collectorVariable), args...)
	cmd.Env = append(os.Environ(), "TRTLLM_RAW_OUTPUT_DIR="+t.TempDir())
	output, err := cmd.CombinedOutput()
	assert.NoError(t, err, string(output))
}

func TestExamplesAreValid(t *testing.T) {
	for _, path := range glob(t, "examples/*.yaml") {
		if filepath.Base(path) != "alerts.yaml" {
			t.Run(filepath.Base(path), func(t *testing.T) { validate(t, path) })
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	return paths
}

// yamlBlock is a fenced block of YAML in a document.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestConfigsInTheDocs loads every block of YAML that a document shows: a whole configuration as it is, a part of one over
// the smallest example. The lines for ocb must be those that the Collector is built with.
func TestConfigsInTheDocs(t *testing.T) {
	builder, err := os.ReadFile(filepath.Join(root, "builder-config.yaml"))
	require.NoError(t, err)
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "processor/*/*.md", "exporter/*/*.md"} {
		documents = append(documents, glob(t, pattern)...)
	}
	found := 0
	for _, document := range documents {
		content, err := os.ReadFile(document)
		require.NoError(t, err)
		for i, block := range yamlBlock.FindAllStringSubmatch(string(content), -1) {
			found++
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(document), i), func(t *testing.T) {
				if strings.Contains(block[1], "gomod:") {
					checkBuilderLines(t, block[1], string(builder))
					return
				}
				loadBlock(t, block[1])
			})
		}
	}
	assert.NotZero(t, found)
}

func loadBlock(t *testing.T, block string) {
	path := filepath.Join(t.TempDir(), "block.yaml")
	require.NoError(t, os.WriteFile(path, []byte(block), 0o600))
	if strings.Contains(block, "service:") {
		validate(t, path)
		return
	}
	validate(t, filepath.Join(root, "examples/minimal.yaml"), path)
}

// checkBuilderLines expects the modules and imports to be those of the builder configuration; where they are found locally
// is for the reader to fill in.
func checkBuilderLines(t *testing.T, block, builder string) {
	require.NoError(t, yaml.Unmarshal([]byte(block), new(any)))
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "- gomod:") || strings.HasPrefix(line, "import:") {
			assert.Contains(t, builder, line)
		}
	}
}

// at overrides where an example listens.
func at(setting, address string) string { return "yaml:" + setting + ": " + address }

func freeAddress(t *testing.T) string {
	address, err := collector.FreeAddress()
	require.NoError(t, err)
	return address
}

const (
	grpcEndpoint = "receivers::otlp::protocols::grpc::endpoint"
	httpEndpoint = "receivers::otlp::protocols::http::endpoint"
)

// TestAgentAndGateway lets one Collector assemble and another write.
func TestAgentAndGateway(t *testing.T) {
	directory, gateway, agent := t.TempDir(), freeAddress(t), freeAddress(t)
	env := []string{"TRTLLM_RAW_OUTPUT_DIR=" + directory, "RAW_OUTPUT_GATEWAY=" + gateway}
	writes := start(t, []string{filepath.Join(root, "examples/gateway.yaml")}, env...)
	assembles := start(t, []string{
		filepath.Join(root, "examples/agent.yaml"), at(grpcEndpoint, agent), at(httpEndpoint, freeAddress(t)),
	}, env...)

	c := sampleCase(t)
	sendSample(t, agent, c.Events)
	stop(t, assembles) // its queue is sent first
	assert.Equal(t, 4, sum(t, writes, writtenRecords))
	assert.Equal(t, 0, sum(t, writes, droppedRecords))
	stop(t, writes)
	files, err := conformance.Files(directory)
	require.NoError(t, err)
	assert.Equal(t, c.Files, files)
}

func sampleCase(t *testing.T) conformance.Case {
	cases, err := conformance.Load(filepath.Join(root, "testdata/conformance"))
	require.NoError(t, err)
	for _, c := range cases {
		if c.Name == "request_end" {
			return c
		}
	}
	t.Fatal("no such case")
	return conformance.Case{}
}

func sendSample(t *testing.T, endpoint string, events []replay.Event) {
	client, err := otlpclient.NewGRPC(otlpclient.Options{Endpoint: endpoint})
	require.NoError(t, err)
	defer client.Close()
	_, err = replay.Send(background(t), client, replay.Records(events, replay.Options{Form: replay.Single, FullText: replay.EveryChunk}),
		replay.Plan{BatchSize: 3, Timeout: patience, Resource: aServer})
	require.NoError(t, err)
}

// TestProduction starts the production example, stops it with records in its queue or in its files, and expects them in the
// files after the next start.
func TestProduction(t *testing.T) {
	directory, queue, endpoint := t.TempDir(), filepath.Join(t.TempDir(), "queue"), freeAddress(t)
	configs := []string{
		filepath.Join(root, "examples/production.yaml"), at(grpcEndpoint, endpoint), at(httpEndpoint, freeAddress(t)),
		at("extensions::health_check::endpoint", freeAddress(t)), at("extensions::pprof::endpoint", freeAddress(t)),
		at("extensions::zpages::endpoint", freeAddress(t)),
	}
	env := []string{"TRTLLM_RAW_OUTPUT_DIR=" + directory, "RAW_OUTPUT_QUEUE_DIR=" + queue}
	c := sampleCase(t)
	first := start(t, configs, env...)
	sendSample(t, endpoint, c.Events)
	stop(t, first)
	second := start(t, configs, env...)
	require.Eventually(t, func() bool { return lines(t, directory) == 4 }, patience, patience/6000)
	stop(t, second)
	assert.Equal(t, 4, lines(t, directory))
	for line := range strings.Lines(content(t, directory)) {
		assert.Contains(t, line, `"resource":{"service.instance.id":"1","service.name":"server"}`)
	}
}

func lines(t *testing.T, directory string) int { return strings.Count(content(t, directory), "\n") }

// content returns what all files of a directory hold.
func content(t *testing.T, directory string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*", "*.jsonl"))
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range paths {
		one, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(one)
	}
	return all.String()
}

// TestOtherAttributeNames sends what an emitter with names of its own would send.
func TestOtherAttributeNames(t *testing.T) {
	directory, endpoint := t.TempDir(), freeAddress(t)
	c := start(t, []string{filepath.Join(root, "examples/other-attribute-names.yaml"), at(grpcEndpoint, endpoint)},
		"TRTLLM_RAW_OUTPUT_DIR="+directory)
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for i, delta := range []string{"to", "day"} {
		record := records.AppendEmpty()
		record.SetEventName("llm.stream.delta")
		record.SetTimestamp(streamStartedAt)
		record.Attributes().PutStr("llm.request.id", "abc")
		record.Attributes().PutInt("llm.choice.index", 1)
		record.Attributes().PutStr("llm.delta", delta)
		record.Attributes().PutEmptySlice("llm.token_ids").AppendEmpty().SetInt(int64(i))
		if delta == "day" {
			record.Attributes().PutStr("llm.finish_reason", "stop")
		}
	}
	client, err := otlpclient.NewGRPC(otlpclient.Options{Endpoint: endpoint})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.SendLogs(background(t), logs))
	stop(t, c)
	files, err := conformance.Files(directory)
	require.NoError(t, err)
	assert.Contains(t, files[theHour], `{"event":"raw_output","request_id":"abc","disagg_request_id":null,"output_index":1,`)
	assert.Contains(t, files[theHour], `"text":"today","frames":["to","day"],"frames_consistent":true,"token_ids":[0,1],"num_output_tokens":2}`)
}

// metricInRule finds the metrics that alert rules speak of, with the label values that they ask for.
var metricInRule = regexp.MustCompile(`(otelcol_\w+)(?:\{(\w+)="(\w+)"\})?`)

// TestAlerts expects every metric that a rule speaks of on the metrics page from the start, each reason included: an alert
// on a counter that is not there yet would miss its first increase.
func TestAlerts(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(root, "examples/alerts.yaml"))
	require.NoError(t, err)
	var parsed struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(rules, &parsed))
	c := start(t, []string{configOf(onePipeline(t, "logs"))})
	for _, rule := range parsed.Groups[0].Rules {
		matches := metricInRule.FindAllStringSubmatch(rule.Expr, -1)
		require.NotEmpty(t, matches, rule.Alert)
		for _, match := range matches {
			var labels []string
			if match[2] != "" {
				labels = match[2:4]
			}
			assert.Equal(t, 0, sum(t, c, match[1], labels...), rule.Alert)
		}
	}
	for _, reason := range []string{"malformed", "encoding", "too_large", "io_error", "disk_full", "permission", "queue_full", "shutdown"} {
		assert.Equal(t, 0, sum(t, c, droppedRecords, "reason", reason))
	}
	stop(t, c)
}

// TestREADMEShowsRealOutput runs what `make run` runs and expects what the README shows, the process id aside.
func TestREADMEShowsRealOutput(t *testing.T) {
	builtPath(t, collectorVariable)
	cmd := exec.CommandContext(background(t), "go", "run", "./scripts/demo")
	cmd.Dir = root
	output, err := cmd.Output()
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	pid := regexp.MustCompile(`raw-\d+\.jsonl`)
	assert.Contains(t, pid.ReplaceAllString(string(readme), "raw-1.jsonl"), pid.ReplaceAllString(string(output), "raw-1.jsonl"))
}
