package playwright

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"headgate/contract"
)

// A session's connections go through this process, as SOCKS 5 (RFC 1928), for
// three things that interception cannot do:
//
//   - Chromium sends a request again by itself, a POST too, when a connection that
//     it has used before breaks without an answer. Before the effect leaves, all
//     connections are closed, and until it is answered its host gets one new one,
//     so that no second copy finds a way.
//   - Hosts that the declaration does not name are not reached at all.
//   - A session that is over is cut off, whatever state its browser is in.
type tunnel struct {
	listener net.Listener
	hosts    []string // host:port
	effect   string   // the effect's; empty: there is none
	dial     func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	open   []net.Conn
	window bool      // the effect may leave, and has no answer
	fresh  int       // connections to its host since the window opened
	seen   time.Time // when this process last ran for sure, inside the window
	shut   bool
}

const (
	dialFor  = 10 * time.Second
	pulse    = 100 * time.Millisecond
	stopped  = time.Second // a longer silence of the pulse means that the process stood still
	socks5   = 5
	accepted = 0
	refused  = 2
	failed   = 4
)

func newTunnel(effect contract.RequestPattern, readOnly []contract.RequestPattern, o Options) (*tunnel, error) {
	t := &tunnel{dial: o.Dial}
	if effect != "" {
		t.effect = effect.Host()
		t.hosts = append(t.hosts, t.effect)
	}
	for _, p := range readOnly {
		t.hosts = append(t.hosts, p.Host())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.listener = listener
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go t.serve(c)
		}
	}()
	return t, nil
}

func (t *tunnel) address() string {
	return (&url.URL{Scheme: "socks5", Host: t.listener.Addr().String()}).String()
}

// expose opens the window: what is open is closed, and the effect's host gets one
// connection.
func (t *tunnel) expose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window, t.fresh, t.seen = true, 0, time.Now()
	t.cut()
	go t.watch()
}

// watch keeps the time at which the process ran. A process that is stopped while
// the effect is in its hands must not pass it on when it goes on, long after.
func (t *tunnel) watch() {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for range tick.C {
		t.mu.Lock()
		on := t.window && !t.shut && !t.stood()
		if on {
			t.seen = time.Now()
		}
		t.mu.Unlock()
		if !on {
			return
		}
	}
}

// stood tells that the process stood still inside the window, and cuts what it
// held.
func (t *tunnel) stood() bool {
	if !t.window || time.Since(t.seen).Abs() < stopped && time.Now().Round(0).Sub(t.seen.Round(0)).Abs() < stopped {
		return false
	}
	t.shut = true
	t.cut()
	return true
}

// answered closes the window.
func (t *tunnel) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window = false
}

// close cuts everything, for good.
func (t *tunnel) close() {
	_ = t.listener.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut = true
	t.cut()
}

func (t *tunnel) cut() {
	for _, c := range t.open {
		_ = c.Close()
	}
	t.open = nil
}

// permits counts a new connection to a host, and says whether it may be.
func (t *tunnel) permits(target string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := false
	for _, h := range t.hosts {
		known = known || h == target
	}
	if t.shut || !known {
		return false
	}
	if t.window && target == t.effect {
		t.fresh++
		return t.fresh == 1
	}
	return true
}

func (t *tunnel) keep(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return false
	}
	t.open = append(t.open, conns...)
	return true
}

func (t *tunnel) drop(conns ...net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		for i := range t.open {
			if t.open[i] == c {
				t.open = append(t.open[:i], t.open[i+1:]...)
				break
			}
		}
	}
}

func (t *tunnel) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(dialFor))
	target, err := greet(c)
	if err != nil {
		return
	}
	reply := func(code byte) { _, _ = c.Write([]byte{socks5, code, 0, 1, 0, 0, 0, 0, 0, 0}) }
	if !t.permits(target) {
		reply(refused)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialFor)
	defer cancel()
	up, err := t.dial(ctx, "tcp", target)
	if err != nil {
		reply(failed)
		return
	}
	defer func() { _ = up.Close() }()
	if !t.keep(c, up) {
		return
	}
	defer t.drop(c, up)
	reply(accepted)
	_ = c.SetDeadline(time.Time{})
	var down sync.WaitGroup
	down.Go(func() {
		_, _ = io.Copy(c, up)
		_ = c.Close() // a broken connection shall be seen as one
	})
	_, _ = io.Copy(&upstream{t, up}, c)
	_ = up.Close()
	down.Wait()
}

// upstream passes on what leaves this machine.
type upstream struct {
	t *tunnel
	net.Conn
}

var errStood = errors.New("the process stood still before the effect left")

// Write refuses what a process that stood still had in its hands.
func (u *upstream) Write(p []byte) (int, error) {
	u.t.mu.Lock()
	late := u.t.shut || u.t.stood()
	u.t.mu.Unlock()
	if late {
		return 0, errStood
	}
	return u.Conn.Write(p)
}

// greet reads the two messages of a client, and gives the host:port that it wants.
func greet(c net.Conn) (string, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil || head[0] != socks5 {
		return "", errors.New("not SOCKS 5")
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[1])); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte{socks5, 0}); err != nil { // no authentication
		return "", err
	}
	want := make([]byte, 4)
	if _, err := io.ReadFull(c, want); err != nil || want[1] != 1 {
		return "", errors.New("not a connection")
	}
	size := map[byte]int{1: net.IPv4len, 4: net.IPv6len}[want[3]]
	if want[3] == 3 {
		one := make([]byte, 1)
		if _, err := io.ReadFull(c, one); err != nil {
			return "", err
		}
		size = int(one[0])
	}
	rest := make([]byte, size+2)
	if _, err := io.ReadFull(c, rest); err != nil || size == 0 {
		return "", errors.New("no address")
	}
	host := string(rest[:size])
	if want[3] != 3 {
		host = net.IP(rest[:size]).String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(rest[size])<<8|int(rest[size+1]))), nil
}
