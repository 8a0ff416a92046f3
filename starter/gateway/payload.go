package gateway

import (
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"

	"headgate/contract/codec"
)

// stored reads what histories and memos hold. It is the only place that does, so
// that encryption has one place to go.
var stored = codec.Converter()

// decode reads the first of some payloads into v and tells whether it could.
func decode(p *commonpb.Payloads, v any) bool {
	return len(p.GetPayloads()) > 0 && decodeOne(p.GetPayloads()[0], v)
}

func decodeOne(p *commonpb.Payload, v any) bool {
	return p != nil && stored.FromPayload(p, v) == nil
}

// memo reads a field of a memo; the zero value when it is absent or unreadable.
func memo[T any](m *commonpb.Memo, name string) T {
	var v T
	if !decodeOne(m.GetFields()[name], &v) {
		var zero T
		return zero
	}
	return v
}

// attribute reads a keyword search attribute; empty when it is absent.
func attribute(a *commonpb.SearchAttributes, name string) string {
	var v string
	decodeOne(a.GetIndexedFields()[name], &v)
	return v
}

// applicationFailure gives the type and the details of an application error.
func applicationFailure(f *failurepb.Failure) (kind string, details *commonpb.Payloads) {
	info := f.GetApplicationFailureInfo()
	return info.GetType(), info.GetDetails()
}
