// Package rawoutput has the factories and the configurations of the OpenTelemetry Collector components that record what a
// language model really generated, in one import, for programs that embed the Collector. A custom Collector built with ocb
// names the components' own packages instead; see the README.
package rawoutput // import "github.com/otel-rawoutput/rawoutput"
