package rawoutputexporter

import (
	"fmt"

	"github.com/otel-rawoutput/rawoutput/internal/record"
)

// included are the values of include, and what each of them asks for.
var included = map[string]func(*record.Include){
	"delivery":    func(i *record.Include) { i.Delivery = true },
	"resource":    func(i *record.Include) { i.Resource = true },
	"trace":       func(i *record.Include) { i.Trace = true },
	"frame_times": func(i *record.Include) { i.FrameTimes = true },
	"attributes":  func(i *record.Include) { i.Attributes = true },
}

func (cfg *Config) validateInclude() error {
	for _, part := range cfg.Include {
		if included[part] == nil {
			return fmt.Errorf("include has %q: it may have delivery, resource, trace, frame_times and attributes", part)
		}
	}
	return nil
}

func (cfg *Config) includes() (include record.Include) {
	for _, part := range cfg.Include {
		included[part](&include)
	}
	return include
}
