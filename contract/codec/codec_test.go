package codec

import (
	"bytes"
	"compress/zlib"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

func TestLargePayloadsAreCompressed(t *testing.T) {
	for _, row := range []struct {
		name     string
		text     string
		encoding string
	}{
		{"small", "short", converter.MetadataEncodingJSON},
		{"large", strings.Repeat("long ", 10_000), deflated},
	} {
		p, err := Converter().ToPayload(row.text)
		require.NoError(t, err, row.name)
		require.Equal(t, row.encoding, string(p.GetMetadata()[converter.MetadataEncoding]), row.name)
		var back string
		require.NoError(t, Converter().FromPayload(p, &back), row.name)
		require.Equal(t, row.text, back, row.name)
	}
}

func TestWhatDoesNotGetSmallerStaysAsItIs(t *testing.T) {
	noise := make([]byte, 2*deflateFrom)
	rand.New(rand.NewSource(1)).Read(noise)
	p := &commonpb.Payload{Data: noise}
	out, err := codec{}.Encode([]*commonpb.Payload{p})
	require.NoError(t, err)
	require.Same(t, p, out[0])
}

func TestBrokenAndHugePayloadsAreRefused(t *testing.T) {
	pack := func(raw []byte) *commonpb.Payload {
		var buf bytes.Buffer
		w := zlib.NewWriter(&buf)
		_, err := w.Write(raw)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(deflated)}, Data: buf.Bytes()}
	}
	cut := pack(bytes.Repeat([]byte("x"), 1000))
	cut.Data = cut.Data[:len(cut.Data)/2]
	for _, p := range []*commonpb.Payload{
		{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(deflated)}, Data: []byte("no zlib")},
		cut,
		pack([]byte{0xff, 0xff, 0xff}), // no payload inside
		pack(make([]byte, inflateMost+1)),
	} {
		_, err := codec{}.Decode([]*commonpb.Payload{p})
		require.Error(t, err)
	}
}
