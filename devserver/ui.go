package main

import (
	"context"
	"fmt"
	"net/http"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI serves the Web UI until the process ends and returns when it answers. It holds no state, so nothing stops it.
func startUI(ctx context.Context, o options) error {
	host := o.ip.String()
	if o.ip.To4() == nil {
		host = "[" + host + "]"
	}
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                host,
		Port:                o.uiPort,
		TemporalGRPCAddress: dialAddress(o.ip, o.port),
		EnableUI:            true,
		DefaultNamespace:    o.namespace,
		// Plain HTTP: a browser would keep a secure cookie to itself, and every action would fail its CSRF check.
		CORS:             uiconfig.CORS{CookieInsecure: true},
		HideLogs:         true,
		DisableNewsFetch: true, // nothing here calls home
	}))
	failed := make(chan error, 1)
	go func() { failed <- ui.Start() }()

	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	url := "http://" + dialAddress(o.ip, o.uiPort) + "/healthz"
	return eventually(ctx, func() error {
		select {
		case err := <-failed:
			return permanent{fmt.Errorf("starting the Web UI: %w", err)}
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return permanent{err}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("the Web UI answers %s", res.Status)
		}
		return nil
	})
}
