// Command godriver is a plain DRA driver on upstream's kubeletplugin helper: whole devices, opaque configuration, recovery
// after a restart. drakit judges it beside its own driver, as the second driver that is known to be good.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

type settings struct {
	driverName, nodeName, kubeconfig, pluginDir, registryDir, cdiDir string
	devices                                                          int
}

func main() {
	var s settings
	texts := map[string]*string{
		"driver-name":  &s.driverName,
		"node-name":    &s.nodeName,
		"kubeconfig":   &s.kubeconfig,
		"plugin-dir":   &s.pluginDir,
		"registry-dir": &s.registryDir,
		"cdi-dir":      &s.cdiDir,
	}
	for name, target := range texts {
		flag.StringVar(target, name, "", "required, but for kubeconfig: without it the account of the Pod is used")
	}
	flag.IntVar(&s.devices, "devices", 4, "number of devices to publish")
	flag.Parse()
	for name, value := range texts {
		if *value == "" && name != "kubeconfig" {
			fmt.Fprintf(os.Stderr, "godriver: --%s is missing\n", name)
			os.Exit(2)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "godriver: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", s.kubeconfig, err)
	}
	config.UserAgent = "godriver/1"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, dir := range []string{s.pluginDir, s.cdiDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	state, err := openState(filepath.Join(s.pluginDir, "checkpoint.json"))
	if err != nil {
		return err
	}
	driver := &driver{settings: s, state: state}
	if err := driver.restore(); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, driver,
		kubeletplugin.DriverName(s.driverName),
		kubeletplugin.NodeName(s.nodeName),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(s.registryDir),
		kubeletplugin.PluginDataDirectoryPath(s.pluginDir),
		kubeletplugin.HealthService(false))
	if err != nil {
		return fmt.Errorf("starting the plugin: %w", err)
	}
	defer helper.Stop()
	if s.devices == 0 {
		klog.ErrorS(nil, "No devices found on this node, publishing an empty pool", "node", s.nodeName)
	}
	if err := helper.PublishResources(ctx, s.resources()); err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	<-ctx.Done()
	return nil
}

// resources are one pool, named like the node, in slices of at most as many devices as the API allows.
func (s settings) resources() resourceslice.DriverResources {
	slices := []resourceslice.Slice{{}}
	for i := range s.devices {
		last := &slices[len(slices)-1]
		if len(last.Devices) == resourceapi.ResourceSliceMaxDevices {
			slices = append(slices, resourceslice.Slice{})
			last = &slices[len(slices)-1]
		}
		last.Devices = append(last.Devices, resourceapi.Device{
			Name: deviceName(i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"index":         {IntValue: ptr.To(int64(i))},
				"model":         {StringValue: ptr.To("plain")},
				"driverVersion": {VersionValue: ptr.To("1.0.0")},
			},
		})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{s.nodeName: {Slices: slices}}}
}

func deviceName(i int) string { return fmt.Sprintf("device-%d", i) }

// HandleError reports what went wrong in the background, such as a slice that the API server refused.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	klog.ErrorS(err, msg, "recoverable", errors.Is(err, kubeletplugin.ErrRecoverable))
}

// WatchHealthStatus is never called, the service is off.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
