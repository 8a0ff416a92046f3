package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const (
	clusterName = "active"
	loopback    = "127.0.0.1"

	// stopTimeout bounds a stop. Nothing is lost by leaving early: all state is in the database.
	stopTimeout = 10 * time.Second
)

type server struct {
	temporal.Server
	logs logs
}

// startServer creates the namespace when it is missing and starts the four services.
func startServer(o options, st stores) (server, error) {
	// 1. The namespace is written before the start, so that its search attributes are there from the first request:
	//    the services would notice a later change only at their next refresh.
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, o.namespace, false, o.searchAttributes)
	if err != nil {
		return server{}, fmt.Errorf("namespace %s: %w", o.namespace, err)
	}
	if err := sqliteschema.CreateNamespaces(st.history, ns); err != nil {
		return server{}, fmt.Errorf("namespace %s: %w", o.namespace, err)
	}

	// 2. The server.
	cfg, err := serverConfig(o, st)
	if err != nil {
		return server{}, err
	}
	l := newLogs(o)
	l.starting()
	srv, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(staticHosts(cfg)),
		temporal.WithLogger(l.Logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(settings(o.dynamicConfig)),
	)
	if err != nil {
		return server{}, fmt.Errorf("preparing the Temporal server: %w", err)
	}
	if err := srv.Start(); err != nil {
		return server{}, fmt.Errorf("starting the Temporal server: %w", err)
	}
	return server{srv, l}, nil
}

func (s server) stop() error {
	s.logs.stopping()
	done := make(chan error, 1)
	go func() { done <- s.Stop() }()
	select {
	case err := <-done:
		return err
	case <-time.After(stopTimeout):
		return fmt.Errorf("the Temporal server did not stop within %s; its state is in the database", stopTimeout)
	}
}

func serverConfig(o options, st stores) (*config.Config, error) {
	cfg := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:    "history",
			VisibilityStore: "visibility",
			// Fixed for the life of a database. One is enough: with SQLite's single writer, four gave nothing.
			NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{
				"history":    {SQL: st.history},
				"visibility": {SQL: st.visibility},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             dialAddress(o.ip, o.port),
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: dialAddress(o.ip, o.port)},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		Services: map[string]config.Service{
			string(primitives.FrontendService): {RPC: config.RPC{GRPCPort: o.port, BindOnIP: o.ip.String()}},
		},
	}
	for _, name := range []primitives.ServiceName{primitives.HistoryService, primitives.MatchingService, primitives.WorkerService} {
		port, err := reservePort()
		if err != nil {
			return nil, fmt.Errorf("port for the %s service: %w", name, err)
		}
		cfg.Services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
	}
	return cfg, nil
}

// staticHosts says where each service is, so that no membership gossip runs and a restart after a kill does not look
// for the hosts of the process before.
func staticHosts(cfg *config.Config) map[primitives.ServiceName]static.Hosts {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range cfg.Services {
		address := dialAddress(net.ParseIP(service.RPC.BindOnIP), service.RPC.GRPCPort)
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(address)
	}
	return hosts
}

// dialAddress is where a client on this machine reaches a listener: loopback when it listens everywhere.
func dialAddress(ip net.IP, port int) string {
	if ip.IsUnspecified() {
		ip = net.ParseIP(loopback)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}

func checkPortFree(ip net.IP, port int, what, flag string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("the %s cannot listen (is another server running? %s chooses another port): %w", what, flag, err)
	}
	return l.Close()
}

// reservePort finds a free loopback port that the system will not hand to anybody else for a while: a port with a
// connection in TIME_WAIT can be listened on, but is not chosen for a listener on port 0.
func reservePort() (port int, err error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	accepted, err := l.Accept()
	if err != nil {
		return 0, err
	}
	// The side that closes first keeps TIME_WAIT; this must be the listener's.
	if err := accepted.Close(); err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}
