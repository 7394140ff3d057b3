package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

const configAPIVersion, configKind = "godriver.drakit.dev/v1", "Config"

// Config is the opaque configuration of a claim or class. Mode reaches the container as a variable.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Mode       string `json:"mode,omitempty"`
}

type driver struct {
	settings
	mutex sync.Mutex
	state *state
}

// PrepareResourceClaims prepares each claim for itself: one that fails leaves nothing behind and does not fail the others.
func (d *driver) PrepareResourceClaims(
	_ context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// UnprepareResourceClaims forgets claims; one that is not known is done already.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := removeIfThere(d.specPath(claim.UID))
		if err == nil {
			err = d.state.remove(claim.UID)
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	prepared, known := d.state.Claims[claim.UID]
	if !known {
		var err error
		if prepared, err = d.plan(claim); err != nil || len(prepared) == 0 {
			return nil, err
		}
	}
	if err := d.writeSpec(claim.UID, prepared); err != nil {
		return nil, err
	}
	if !known {
		if err := d.state.add(claim.UID, prepared); err != nil {
			return nil, errors.Join(err, removeIfThere(d.specPath(claim.UID)))
		}
	}
	var devices []kubeletplugin.Device
	for _, one := range prepared {
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{one.Request},
			PoolName:     d.nodeName,
			DeviceName:   one.Device,
			CDIDeviceIDs: []string{d.specKind() + "=" + cdiName(claim.UID, one.Device)},
		})
	}
	return devices, nil
}

// plan decides what a claim gets, without changing anything.
func (d *driver) plan(claim *resourceapi.ResourceClaim) ([]preparedDevice, error) {
	var planned []preparedDevice
	allocation := claim.Status.Allocation.Devices
	for _, result := range allocation.Results {
		if result.Driver != d.driverName {
			continue
		}
		if result.Pool != d.nodeName || !d.exists(result.Device) {
			return nil, fmt.Errorf("device %s of pool %s is not on this node", result.Device, result.Pool)
		}
		if holder, held := d.state.holder(result.Device); held {
			return nil, fmt.Errorf("device %s is prepared for claim %s", result.Device, holder)
		}
		config, err := d.configFor(result.Request, allocation.Config)
		if err != nil {
			return nil, err
		}
		planned = append(planned, preparedDevice{Request: result.Request, Device: result.Device, Mode: config.Mode})
	}
	return planned, nil
}

func (d *driver) exists(device string) bool {
	for i := range d.devices {
		if deviceName(i) == device {
			return true
		}
	}
	return false
}

// configFor gives the last configuration that applies to a request; those of the claim come after those of the class.
func (d *driver) configFor(request string, all []resourceapi.DeviceAllocationConfiguration) (Config, error) {
	var found Config
	for _, source := range []resourceapi.AllocationConfigSource{
		resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim,
	} {
		for _, one := range all {
			if one.Source != source || one.Opaque == nil || one.Opaque.Driver != d.driverName || !applies(one.Requests, request) {
				continue
			}
			decoder := json.NewDecoder(bytes.NewReader(one.Opaque.Parameters.Raw))
			decoder.DisallowUnknownFields()
			found = Config{}
			if err := decoder.Decode(&found); err != nil {
				return found, fmt.Errorf("configuration for request %s: %w", request, err)
			}
			if found.APIVersion != configAPIVersion || found.Kind != configKind {
				return found, fmt.Errorf("configuration for request %s is %s %s, known is %s %s",
					request, found.APIVersion, found.Kind, configAPIVersion, configKind)
			}
		}
	}
	return found, nil
}

// applies says whether a list of requests, empty for all, names a request or the one around a chosen subrequest.
func applies(requests []string, request string) bool {
	base, _, _ := strings.Cut(request, "/")
	return len(requests) == 0 || slices.Contains(requests, request) || slices.Contains(requests, base)
}

func (d *driver) specKind() string { return d.driverName + "/device" }

func (d *driver) specPath(claim types.UID) string {
	return filepath.Join(d.cdiDir, d.driverName+"-"+string(claim)+".json")
}

func cdiName(claim types.UID, device string) string { return device + "-" + string(claim) }

func (d *driver) writeSpec(claim types.UID, prepared []preparedDevice) error {
	spec := cdi.Spec{Version: "0.5.0", Kind: d.specKind()}
	for _, one := range prepared {
		name := strings.ToUpper(strings.ReplaceAll(one.Device, "-", "_"))
		env := []string{"GODRIVER_" + name + "=" + string(claim)}
		if one.Mode != "" {
			env = append(env, "GODRIVER_"+name+"_MODE="+one.Mode)
		}
		spec.Devices = append(spec.Devices, cdi.Device{
			Name: cdiName(claim, one.Device), ContainerEdits: cdi.ContainerEdits{Env: env},
		})
	}
	return writeFile(d.specPath(claim), spec)
}

// restore brings the CDI directory in line with the checkpoint, after a crash or when it was emptied.
func (d *driver) restore() error {
	for claim, prepared := range d.state.Claims {
		if err := d.writeSpec(claim, prepared); err != nil {
			return err
		}
	}
	found, err := filepath.Glob(filepath.Join(d.cdiDir, d.driverName+"-*.json*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		claim := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), d.driverName+"-"), ".json")
		if _, known := d.state.Claims[types.UID(claim)]; known {
			continue
		}
		if err := removeIfThere(path); err != nil {
			return err
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
