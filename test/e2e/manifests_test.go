package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// documentsOf returns the YAML documents of a file.
func documentsOf(t *testing.T, path string) (documents []map[string]any) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	for {
		var document map[string]any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents
		}
		require.NoError(t, err, path)
		documents = append(documents, document)
	}
}

// manifests are the YAML files in the folders of examples.
func manifests(t *testing.T) (paths []string) {
	t.Helper()
	examples := filepath.Join(root, "examples")
	require.NoError(t, filepath.WalkDir(examples, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".yaml" && filepath.Dir(path) != examples {
			paths = append(paths, path)
		}
		return err
	}))
	require.NotEmpty(t, paths)
	return paths
}

// configsIn returns the Collector configurations of a document: itself, or what a ConfigMap holds.
func configsIn(document map[string]any) (configs []string) {
	if document["kind"] == "ConfigMap" {
		data, _ := document["data"].(map[string]any)
		for _, value := range data {
			configs = append(configs, value.(string))
		}
		return configs
	}
	if service, ok := document["service"].(map[string]any); ok && service["pipelines"] != nil {
		text, _ := yaml.Marshal(document)
		return []string{string(text)}
	}
	return nil
}

// TestConfigsInManifests loads every Collector configuration in the manifests.
func TestConfigsInManifests(t *testing.T) {
	var routers, all int
	for _, path := range manifests(t) {
		for _, document := range documentsOf(t, path) {
			for _, config := range configsIn(document) {
				all++
				if strings.Contains(config, "load_balancing") {
					routers++
					config = withoutLoadBalancing(t, config)
				}
				file := filepath.Join(t.TempDir(), "config.yaml")
				require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
				validate(t, file)
			}
		}
	}
	assert.Equal(t, 5, all)
	assert.Equal(t, 1, routers)
}

// withoutLoadBalancing checks a configuration of a Collector that is not ours, as ours has no load_balancing exporter (it comes
// with the clients of Kubernetes and AWS, for one example): what it is there for is right, and the rest loads with the exporter
// that it makes for each of its backends.
func withoutLoadBalancing(t *testing.T, config string) string {
	t.Helper()
	var parsed map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(config), &parsed))
	exporters := parsed["exporters"].(map[string]any)
	var balancing struct {
		RoutingKey        string   `yaml:"routing_key"`
		RoutingAttributes []string `yaml:"routing_attributes"`
		Protocol          struct{ OTLP map[string]any }
		Resolver          struct{ DNS map[string]string }
	}
	text, err := yaml.Marshal(exporters["load_balancing"])
	require.NoError(t, err)
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&balancing))
	assert.Equal(t, "attributes", balancing.RoutingKey)
	assert.Equal(t, []string{"service.instance.id"}, balancing.RoutingAttributes)
	balancing.Protocol.OTLP["endpoint"] = net.JoinHostPort(balancing.Resolver.DNS["hostname"], balancing.Resolver.DNS["port"])
	delete(exporters, "load_balancing")
	exporters["otlp_grpc"] = balancing.Protocol.OTLP
	text, err = yaml.Marshal(parsed)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "- load_balancing", "- otlp_grpc")
}

// TestServersInManifests expects that servers in the manifests have the emitter's hook and send to a port that a Collector in the
// same file, or in the file beside it, receives at.
func TestServersInManifests(t *testing.T) {
	const hook = "--post_processor_hook rawoutput_emitter.RawOutputEmitter"
	found := 0
	for _, path := range manifests(t) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		plain := strings.ReplaceAll(string(content), ",", "")
		for _, match := range endpointInManifest.FindAllStringSubmatch(string(content), -1) {
			found++
			endpoint, err := url.Parse(strings.Replace(match[1], "$(NODE_IP)", "node", 1))
			require.NoError(t, err)
			assert.Equal(t, "4318", endpoint.Port(), path)
			if filepath.Base(path) != "gateway.yaml" { // where it is only told
				assert.Contains(t, plain, hook, path)
			}
		}
	}
	assert.Equal(t, 4, found)
}

var endpointInManifest = regexp.MustCompile(`OTEL_EXPORTER_OTLP_ENDPOINT\W+(?:value: )?"?(http://[^\s"}]+)`)

// TestCompose expects the files that the services of the compose file mount and build from.
func TestCompose(t *testing.T) {
	folder := filepath.Join(root, "examples/docker-compose")
	text, err := os.ReadFile(filepath.Join(folder, "docker-compose.yaml"))
	require.NoError(t, err)
	var compose struct {
		Services map[string]struct {
			Image   string
			Build   struct{ Context, Dockerfile string }
			Volumes []string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &compose))
	require.Len(t, compose.Services, 4)
	for name, service := range compose.Services {
		if service.Image == "" {
			assert.FileExists(t, filepath.Join(folder, service.Build.Context, service.Build.Dockerfile), name)
		}
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if source != "./raw-output" { // which is made
				_, err := os.Stat(filepath.Join(folder, source))
				assert.NoError(t, err, name)
			}
		}
	}
}

// TestDashboard expects every metric of the dashboard on the metrics page of the Collector, under exactly that name and with the
// labels that the dashboard asks for.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "examples/docker-compose/grafana/raw-output.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)

	c := start(t, []string{filepath.Join(root, "examples/docker-compose/collector.yaml"), at("exporters::raw_output::directory", t.TempDir()),
		at(grpcEndpoint, freeAddress(t)), at(httpEndpoint, freeAddress(t))})
	page, err := c.Metrics(background(t))
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			metrics := metricName.FindAllString(target.Expr, -1)
			require.Len(t, metrics, 1, panel.Title)
			require.Contains(t, page, metrics[0], panel.Title)
			shown[metrics[0]] = true
			for _, label := range labelInLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, target.Expr, "by ("+label[1]+")", panel.Title)
				for _, series := range page[metrics[0]].GetMetric() {
					assert.True(t, slices.ContainsFunc(series.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label[1] }), panel.Title)
				}
			}
		}
	}
	for name := range page {
		if strings.Contains(name, "_raw_output_") {
			assert.True(t, shown[name], "%s is not on the dashboard", name)
		}
	}
	stop(t, c)
}

var (
	metricName    = regexp.MustCompile(`otelcol_\w+`)
	labelInLegend = regexp.MustCompile(`\{\{(\w+)\}\}`)
)
