// Package codec is how Headgate writes payloads: the one place between a value
// and what Temporal stores.
package codec

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

const (
	deflated = "binary/zlib" // the encoding that the SDK's own zlib codec writes
	// deflateFrom leaves the payloads of most tasks as they are, so that they can
	// be read in the Temporal Web UI; what is larger is mostly a budget's state.
	deflateFrom = 16 << 10
	// inflateMost bounds what a payload may unpack to.
	inflateMost = 64 << 20
)

// Converter is how all processes of Headgate write payloads: as the SDK does,
// but large ones compressed. It reads both.
func Converter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec{})
}

type codec struct{}

// Encode compresses what is large and gets smaller by it.
func (codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		out[i] = p
		if len(p.GetData()) < deflateFrom {
			continue
		}
		raw, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("compress a payload: %w", err)
		}
		var buf bytes.Buffer
		w := zlib.NewWriter(&buf)
		if _, err := w.Write(raw); err != nil {
			return nil, fmt.Errorf("compress a payload: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("compress a payload: %w", err)
		}
		if buf.Len() < len(raw) {
			out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(deflated)}, Data: buf.Bytes()}
		}
	}
	return out, nil
}

// Decode reads what Encode wrote, and anything else as it is.
func (codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		out[i] = p
		if string(p.GetMetadata()[converter.MetadataEncoding]) != deflated {
			continue
		}
		r, err := zlib.NewReader(bytes.NewReader(p.GetData()))
		if err != nil {
			return nil, fmt.Errorf("unpack a payload: %w", err)
		}
		raw, err := io.ReadAll(io.LimitReader(r, inflateMost+1))
		if err != nil {
			return nil, fmt.Errorf("unpack a payload: %w", err)
		}
		if len(raw) > inflateMost {
			return nil, fmt.Errorf("unpack a payload: it is longer than %d bytes", inflateMost)
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(raw, out[i]); err != nil {
			return nil, fmt.Errorf("unpack a payload: %w", err)
		}
	}
	return out, nil
}
