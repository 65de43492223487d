package attr

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

func TestIdentifying(t *testing.T) {
	type raw = map[string]any
	for _, test := range []struct {
		name     string
		resource raw
		want     []string
	}{
		{"nothing", raw{}, nil},
		{"nothing of it", raw{"deployment": "blue"}, nil},
		{
			"an instance", raw{"service.instance.id": "i", "service.name": "n", "service.namespace": "s", "process.pid": int64(1), "host.name": "h"},
			[]string{"service.namespace=s", "service.name=n", "service.instance.id=i", "process.pid=1"},
		},
		{
			"no instance", raw{"service.name": "n", "host.name": "h", "k8s.pod.uid": "u"},
			[]string{"service.name=n", "host.name=h", "k8s.pod.uid=u"},
		},
		{"an instance without a value is none", raw{"service.instance.id": "", "host.name": "h"}, []string{"host.name=h"}},
		{"a value that is none", raw{"service.name": nil, "k8s.pod.uid": "u"}, []string{"k8s.pod.uid=u"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			resource := pcommon.NewMap()
			require.NoError(t, resource.FromRaw(test.resource))
			var got []string
			for key, value := range Identifying(resource) {
				got = append(got, key+"="+value.AsString())
			}
			assert.Equal(t, test.want, got)
			for range Identifying(resource) {
				break // may stop at any of them
			}
		})
	}
}
