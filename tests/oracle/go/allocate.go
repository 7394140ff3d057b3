package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// defaults are those of Kubernetes 1.37 for the gates that concern the allocator.
var defaults = map[string]bool{
	"DRAAdminAccess":               true,
	"DRAConsumableCapacity":        true,
	"DRADerivedAttributes":         false,
	"DRADeviceBindingConditions":   true,
	"DRADeviceCompatibilityGroups": false,
	"DRADeviceTaints":              true,
	"DRAFractionalCapacityRange":   false,
	"DRAListTypeAttributes":        false,
	"DRAOptionalNodeOperations":    false,
	"DRAPartitionableDevices":      true,
	"DRAPrioritizedList":           true,
	"DRAResourceClaimDeviceStatus": true,
}

func gates(set map[string]bool) map[string]bool {
	result := maps.Clone(defaults)
	maps.Copy(result, set)
	return result
}

// features is what kube-scheduler passes to the allocator for its feature gates.
func features(on map[string]bool) structured.Features {
	return structured.Features{
		AdminAccess:             on["DRAAdminAccess"],
		CompatibilityGroups:     on["DRADeviceCompatibilityGroups"],
		ConsumableCapacity:      on["DRAConsumableCapacity"],
		DerivedAttributes:       on["DRADerivedAttributes"],
		DeviceBindingAndStatus:  on["DRADeviceBindingConditions"] && on["DRAResourceClaimDeviceStatus"],
		DeviceTaints:            on["DRADeviceTaints"],
		FractionalCapacityRange: on["DRAFractionalCapacityRange"],
		ListTypeAttributes:      on["DRAListTypeAttributes"],
		OptionalNodeOperations:  on["DRAOptionalNodeOperations"],
		PartitionableDevices:    on["DRAPartitionableDevices"],
		PrioritizedList:         on["DRAPrioritizedList"],
	}
}

func celFeatures(on map[string]bool) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: on["DRAConsumableCapacity"],
		EnableListTypeAttributes: on["DRAListTypeAttributes"],
	}
}

var caches = map[cel.Features]*cel.Cache{}

// programs keeps compiled expressions from line to line, which changes no answer.
func programs(on map[string]bool) *cel.Cache {
	wanted := celFeatures(on)
	if caches[wanted] == nil {
		caches[wanted] = cel.NewCache(1000, wanted)
	}
	return caches[wanted]
}

type allocateLine struct {
	Node           *corev1.Node                 `json:"node"`
	Nodes          []*corev1.Node               `json:"nodes"`
	Repeat         int                          `json:"repeat"`
	Claims         []*resourceapi.ResourceClaim `json:"claims"`
	DeviceClasses  classes                      `json:"deviceClasses"`
	ResourceSlices []*resourceapi.ResourceSlice `json:"resourceSlices"`
	Allocated      allocated                    `json:"allocated"`
	FeatureGates   map[string]bool              `json:"featureGates"`
}

type allocated struct {
	Devices  []string                                                   `json:"devices"`
	Shared   []string                                                   `json:"shared"`
	Capacity map[string]map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// device reads driver/pool/device; pools may have slashes in their names.
func device(id string) (structured.DeviceID, error) {
	driver, rest, _ := strings.Cut(id, "/")
	slash := strings.LastIndex(rest, "/")
	if slash < 0 {
		return structured.DeviceID{}, fmt.Errorf("%q is not driver/pool/device", id)
	}
	return structured.MakeDeviceID(driver, rest[:slash], rest[slash+1:]), nil
}

func (a allocated) state() (structured.AllocatedState, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, id := range a.Devices {
		found, err := device(id)
		if err != nil {
			return state, err
		}
		state.AllocatedDevices.Insert(found)
	}
	for _, id := range a.Shared {
		slash := strings.LastIndex(id, "/")
		found, err := device(id[:max(slash, 0)])
		if err != nil {
			return state, err
		}
		share := types.UID(id[slash+1:])
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(found, &share))
	}
	for id, amounts := range a.Capacity {
		found, err := device(id)
		if err != nil {
			return state, err
		}
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(found, amounts))
	}
	return state, nil
}

type problem struct {
	Error string `json:"error"`
	Scope string `json:"scope"`
}

type results struct {
	Results []resourceapi.AllocationResult `json:"results"`
}

func allocate(line []byte) (any, error) {
	var given allocateLine
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, err
	}
	state, err := given.Allocated.state()
	if err != nil {
		return nil, err
	}
	on := gates(given.FeatureGates)
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	allocator, err := structured.NewAllocator(
		ctx, features(on), state, given.DeviceClasses, given.ResourceSlices, programs(on))
	if err != nil {
		return nil, err
	}
	found, err := allocator.Allocate(ctx, given.Node, given.Claims)
	return outcome(found, err), nil
}

func outcome(found []resourceapi.AllocationResult, err error) any {
	if err != nil {
		scope := "pod"
		if errors.Is(err, structured.ErrFailedAllocationOnNode) {
			scope = "node"
		}
		return problem{Error: err.Error(), Scope: scope}
	}
	if found == nil {
		found = []resourceapi.AllocationResult{}
	}
	return results{found}
}

type timing struct {
	Seconds []float64 `json:"seconds"`
	Answers []any     `json:"answers"`
}

// cpu is the processor time that this process has used, garbage collection included.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// measure gives the processor time of one pod against all nodes: a new allocator, then pool gathering and search on each
// node. Reading the line is no part of it, and neither is compiling expressions, in a first round that does not count
// when "repeat" is set.
func measure(line []byte) (any, error) {
	runtime.GOMAXPROCS(1)
	var given allocateLine
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, err
	}
	state, err := given.Allocated.state()
	if err != nil {
		return nil, err
	}
	on := gates(given.FeatureGates)
	ctx := context.Background()
	nodes := given.Nodes
	if given.Node != nil {
		nodes = append(nodes, given.Node)
	}
	var measured timing
	for round := 0; round <= given.Repeat; round++ {
		answers := make([]any, 0, len(nodes))
		runtime.GC()
		begin := cpu()
		allocator, err := structured.NewAllocator(
			ctx, features(on), state, given.DeviceClasses, given.ResourceSlices, programs(on))
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			answers = append(answers, outcome(allocator.Allocate(ctx, node, given.Claims)))
		}
		if round > 0 || given.Repeat == 0 {
			measured.Seconds = append(measured.Seconds, cpu()-begin)
		}
		measured.Answers = answers
	}
	return measured, nil
}
