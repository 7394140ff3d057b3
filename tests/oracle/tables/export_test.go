// Injected beside upstream's allocator with `go test -overlay`: runs upstream's own table of cases and writes what the
// allocator was given and what it answered, a JSON line for each case, to the file that DRAKIT_TABLES names.
package PACKAGE

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
)

type drakitLine struct {
	Node           *corev1.Node                 `json:"node"`
	Claims         []*resourceapi.ResourceClaim `json:"claims"`
	DeviceClasses  []*resourceapi.DeviceClass   `json:"deviceClasses"`
	ResourceSlices []*resourceapi.ResourceSlice `json:"resourceSlices"`
	Allocated      drakitAllocated              `json:"allocated"`
	FeatureGates   map[string]bool              `json:"featureGates"`
}

type drakitAllocated struct {
	Devices  []string                     `json:"devices"`
	Shared   []string                     `json:"shared"`
	Capacity map[string]map[string]string `json:"capacity"`
}

type drakitCase struct {
	Implementation string         `json:"implementation"`
	Cancelled      bool           `json:"cancelled"`
	Line           drakitLine     `json:"line"`
	Answer         map[string]any `json:"answer"`
}

type drakitRecorder struct {
	*Allocator
	line  drakitLine
	write func(drakitCase)
}

func (r *drakitRecorder) Allocate(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	r.line.Node, r.line.Claims = node, claims
	found, err := r.Allocator.Allocate(ctx, node, claims)
	answer := map[string]any{}
	switch {
	case errors.Is(err, internal.ErrFailedAllocationOnNode):
		answer["error"], answer["scope"] = err.Error(), "node"
	case err != nil:
		answer["error"], answer["scope"] = err.Error(), "pod"
	case found == nil:
		answer["results"] = []any{}
	default:
		answer["results"] = found
	}
	r.write(drakitCase{"PACKAGE", ctx.Err() != nil, r.line, answer})
	return found, err
}

func drakitState(given AllocatedState) drakitAllocated {
	state := drakitAllocated{Capacity: map[string]map[string]string{}}
	for id := range given.AllocatedDevices {
		state.Devices = append(state.Devices, id.String())
	}
	for id := range given.AllocatedSharedDeviceIDs {
		state.Shared = append(state.Shared, id.GetDeviceID().String()+"/"+id.ShareID.String())
	}
	for id, amounts := range given.AggregatedCapacity {
		texts := map[string]string{}
		for name, amount := range amounts {
			texts[string(name)] = amount.String()
		}
		state.Capacity[id.String()] = texts
	}
	return state
}

func drakitGates(given Features) map[string]bool {
	gates := map[string]bool{}
	for name := range internal.FeaturesAll.Set() {
		for _, gate := range strings.Split(name, "+") {
			gates[gate] = given.Set().Has(name)
		}
	}
	return gates
}

func TestDrakitExport(t *testing.T) {
	file, err := os.Create(os.Getenv("DRAKIT_TABLES"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	var lock sync.Mutex
	write := func(entry drakitCase) {
		lock.Lock()
		defer lock.Unlock()
		if err := encoder.Encode(entry); err != nil {
			t.Error(err)
		}
	}
	record := func(
		ctx context.Context,
		features Features,
		state AllocatedState,
		lister internal.DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		cache *cel.Cache,
	) (internal.Allocator, error) {
		inner, err := NewAllocator(ctx, features, STATE, lister, slices, cache)
		if err != nil {
			return nil, err
		}
		classes, err := lister.List()
		if err != nil {
			return nil, err
		}
		line := drakitLine{
			DeviceClasses:  classes,
			ResourceSlices: slices,
			Allocated:      drakitState(state),
			FeatureGates:   drakitGates(features),
		}
		return &drakitRecorder{inner, line, write}, nil
	}
	allocatortesting.TestAllocator(t, SupportedFeatures, record)
	LEXICOGRAPHICAL
}
