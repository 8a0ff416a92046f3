package playwright

import (
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// dial asks a tunnel for a connection, and tells its answer.
func dial(t *testing.T, through *tunnel, target string) (net.Conn, byte) {
	t.Helper()
	c, err := net.Dial("tcp", through.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	host, text, err := net.SplitHostPort(target)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	_, err = c.Write([]byte{socks5, 1, 0})
	require.NoError(t, err)
	_, err = c.Write(append(append([]byte{socks5, 1, 0, 3, byte(len(host))}, host...), byte(port>>8), byte(port)))
	require.NoError(t, err)
	answer := make([]byte, 12)
	_, err = io.ReadFull(c, answer)
	require.NoError(t, err)
	return c, answer[3]
}

// echo answers what it is told.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

// says tells whether a connection passes a word there and back.
func says(c net.Conn) bool {
	if _, err := c.Write([]byte("hello")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err == nil
}

func TestTunnel(t *testing.T) {
	site, other, foreign := echo(t), echo(t), echo(t)
	through, err := newTunnel(contract.RequestPattern("POST http://"+site+"/x"), []contract.RequestPattern{contract.RequestPattern("http://" + other + "/**")}, New(Options{}).o)
	require.NoError(t, err)
	defer through.close()

	before, code := dial(t, through, site)
	require.EqualValues(t, accepted, code)
	require.True(t, says(before))
	_, code = dial(t, through, foreign)
	require.EqualValues(t, refused, code, "the declaration does not name it")

	through.expose()
	require.False(t, says(before), "what was open is closed")
	first, code := dial(t, through, site)
	require.EqualValues(t, accepted, code)
	require.True(t, says(first))
	_, code = dial(t, through, site)
	require.EqualValues(t, refused, code, "a second one could carry a second copy")
	aside, code := dial(t, through, other)
	require.EqualValues(t, accepted, code)
	require.True(t, says(aside))

	through.answered()
	_, code = dial(t, through, site)
	require.EqualValues(t, accepted, code)
	require.True(t, says(first))

	through.close()
	require.False(t, says(first))
}

// A process that stood still with the effect in its hands does not pass it on.
func TestTunnelStoodStill(t *testing.T) {
	site := echo(t)
	through, err := newTunnel(contract.RequestPattern("POST http://"+site+"/x"), nil, New(Options{}).o)
	require.NoError(t, err)
	defer through.close()
	through.expose()
	c, code := dial(t, through, site)
	require.EqualValues(t, accepted, code)
	require.True(t, says(c))
	through.mu.Lock()
	through.seen = through.seen.Add(-2 * stopped) // SIGSTOP, SIGCONT
	through.mu.Unlock()
	require.False(t, says(c))
	_, code = dial(t, through, site)
	require.EqualValues(t, refused, code)
}
