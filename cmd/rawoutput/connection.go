package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/otel-rawoutput/rawoutput/internal/otlpclient"
)

// connection are the flags that say where to and how something is sent.
type connection struct {
	endpoint, protocol, signal string
	headers, resource          map[string]string
	timeout                    time.Duration
}

func (c *connection) register(flags *pflag.FlagSet) {
	flags.StringVar(&c.endpoint, "endpoint", "", "`host:port` or URL of the receiver, https:// for TLS\n"+
		"(default localhost:4317, for --protocol http localhost:4318)")
	flags.StringVar(&c.protocol, "protocol", "grpc", "`grpc` or http")
	flags.StringVar(&c.signal, "signal", "logs", "send as `logs` or traces")
	flags.StringToStringVar(&c.headers, "header", nil, "a `name=value` to send along; may be repeated")
	flags.StringToStringVar(&c.resource, "resource", nil, "a resource attribute, `key=value`; may be repeated\n"+
		"(by default there are service.name and a random service.instance.id)")
	flags.DurationVar(&c.timeout, "timeout", 10*time.Second, "how long to wait for the answer to a request")
}

func (c *connection) check() error {
	for _, choice := range []choice{
		{"--protocol", c.protocol, []string{"grpc", "http"}},
		{"--signal", c.signal, []string{"logs", "traces"}},
	} {
		if err := choice.check(); err != nil {
			return err
		}
	}
	if c.timeout <= 0 {
		return fmt.Errorf("--timeout is %v: it must be above 0", c.timeout)
	}
	return nil
}

// choice is a flag with few values.
type choice struct {
	flag, value string
	allowed     []string
}

func (c choice) check() error {
	if !slices.Contains(c.allowed, c.value) {
		return fmt.Errorf("%s is %q: it must be one of %q", c.flag, c.value, c.allowed)
	}
	return nil
}

func (c *connection) client() (otlpclient.Client, error) {
	options := otlpclient.Options{Endpoint: c.endpoint, Headers: c.headers}
	if c.protocol == "http" {
		if options.Endpoint == "" {
			options.Endpoint = "localhost:4318"
		}
		return otlpclient.NewHTTP(options), nil
	}
	if options.Endpoint == "" {
		options.Endpoint = "localhost:4317"
	}
	return otlpclient.NewGRPC(options)
}
