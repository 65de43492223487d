// Package otlpclient sends logs and traces to an OTLP endpoint, over gRPC or HTTP. It does not try again: who sends a
// recorded stream wants to know what was not taken.
package otlpclient // import "github.com/otel-rawoutput/rawoutput/internal/otlpclient"

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// Client sends batches. An error means that the receiver did not take all of a batch, or may not have.
type Client interface {
	SendLogs(context.Context, plog.Logs) error
	SendTraces(context.Context, ptrace.Traces) error
	Close() error
}

// Options are those of a connection.
type Options struct {
	Endpoint string // host:port, http://host:port or https://host:port, for HTTP with a path before /v1/logs if need be
	Headers  map[string]string
}

// isTLS reports whether the endpoint asks for TLS.
func (o *Options) isTLS() bool { return strings.HasPrefix(o.Endpoint, "https://") }

// NewGRPC returns a client for OTLP over gRPC. It connects with the first batch.
func NewGRPC(o Options) (Client, error) {
	transport := insecure.NewCredentials()
	if o.isTLS() {
		transport = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	target := strings.TrimPrefix(strings.TrimPrefix(o.Endpoint, "https://"), "http://")
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport))
	if err != nil {
		return nil, err
	}
	return &grpcClient{
		conn:    conn,
		headers: metadata.New(o.Headers),
		logs:    plogotlp.NewGRPCClient(conn),
		traces:  ptraceotlp.NewGRPCClient(conn),
	}, nil
}

type grpcClient struct {
	conn    *grpc.ClientConn
	headers metadata.MD
	logs    plogotlp.GRPCClient
	traces  ptraceotlp.GRPCClient
}

func (c *grpcClient) SendLogs(ctx context.Context, batch plog.Logs) error {
	response, err := c.logs.Export(metadata.NewOutgoingContext(ctx, c.headers), plogotlp.NewExportRequestFromLogs(batch))
	if err != nil {
		return err
	}
	partial := response.PartialSuccess()
	return rejection(partial.RejectedLogRecords(), partial.ErrorMessage())
}

func (c *grpcClient) SendTraces(ctx context.Context, batch ptrace.Traces) error {
	response, err := c.traces.Export(metadata.NewOutgoingContext(ctx, c.headers), ptraceotlp.NewExportRequestFromTraces(batch))
	if err != nil {
		return err
	}
	partial := response.PartialSuccess()
	return rejection(partial.RejectedSpans(), partial.ErrorMessage())
}

func (c *grpcClient) Close() error { return c.conn.Close() }

// NewHTTP returns a client for OTLP over HTTP, in protobuf.
func NewHTTP(o Options) Client {
	endpoint := strings.TrimSuffix(o.Endpoint, "/")
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	return &httpClient{endpoint: endpoint, headers: o.Headers, client: &http.Client{}}
}

type httpClient struct {
	endpoint string
	headers  map[string]string
	client   *http.Client
}

func (c *httpClient) SendLogs(ctx context.Context, batch plog.Logs) error {
	body, err := plogotlp.NewExportRequestFromLogs(batch).MarshalProto()
	if err != nil {
		return err
	}
	answer, err := c.post(ctx, "/v1/logs", body)
	if err != nil {
		return err
	}
	response := plogotlp.NewExportResponse()
	if err := response.UnmarshalProto(answer); err != nil {
		return err
	}
	partial := response.PartialSuccess()
	return rejection(partial.RejectedLogRecords(), partial.ErrorMessage())
}

func (c *httpClient) SendTraces(ctx context.Context, batch ptrace.Traces) error {
	body, err := ptraceotlp.NewExportRequestFromTraces(batch).MarshalProto()
	if err != nil {
		return err
	}
	answer, err := c.post(ctx, "/v1/traces", body)
	if err != nil {
		return err
	}
	response := ptraceotlp.NewExportResponse()
	if err := response.UnmarshalProto(answer); err != nil {
		return err
	}
	partial := response.PartialSuccess()
	return rejection(partial.RejectedSpans(), partial.ErrorMessage())
}

// largestAnswer is the most that is read of an answer, in bytes.
const largestAnswer = 1 << 20

func (c *httpClient) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	for key, value := range c.headers {
		request.Header.Set(key, value)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("POST %s: %s", c.endpoint+path, response.Status)
	}
	return answer, nil
}

func (c *httpClient) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// rejection makes an error of a partial success.
func rejection(records int64, message string) error {
	if records == 0 {
		return nil
	}
	return fmt.Errorf("the receiver rejected %d records: %s", records, message)
}
