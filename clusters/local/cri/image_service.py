"""The ImageService of the CRI: every image is present, none has any content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from clusters.clock import Clock
from clusters.containers.images import resolve
from clusters.containers.model import Image
from clusters.containers.runtime import Runtime
from clusters.local.cri import answers, usage
from clusters.local.cri.rpc import Call, Stream
from node_api.gen import cri_v1_pb2 as pb


class ImageService:
    """Answers for one node."""

    def __init__(self, runtime: Runtime, clock: Clock, root: Path) -> None:
        """`root` is the folder of the runtime, whose file system the usage is of."""
        self._runtime, self._clock, self._root = runtime, clock, root

    def calls(self) -> Mapping[str, Call | Stream]:
        """What answers, by name of the method."""
        return {
            "ListImages": self._list,
            "StreamImages": self._stream,
            "ImageStatus": self._status,
            "PullImage": self._pull,
            "RemoveImage": self._remove,
            "ImageFsInfo": self._fs_info,
        }

    async def _matching(self, wanted: str) -> list[Image]:
        images = await self._runtime.list_images()
        if not wanted:
            return images
        ids = {wanted} if wanted.startswith("sha256:") else {resolve(wanted).id}
        return [image for image in images if image.id in ids]

    async def _list(self, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
        found = await self._matching(request.filter.image.image)
        return pb.ListImagesResponse(images=[answers.image(image) for image in found])

    async def _stream(self, request: pb.StreamImagesRequest) -> AsyncIterator[pb.StreamImagesResponse]:
        for image in await self._matching(request.filter.image.image):
            yield pb.StreamImagesResponse(images=[answers.image(image)])

    async def _status(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        found = await self._runtime.image_status(request.image.image)
        return pb.ImageStatusResponse(image=None if found is None else answers.image(found))

    async def _pull(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        found = await self._runtime.pull_image(request.image.image)
        return pb.PullImageResponse(image_ref=found.id)

    async def _remove(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        await self._runtime.remove_image(request.image.image)
        return pb.RemoveImageResponse()

    async def _fs_info(self, _request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
        found = usage.filesystem(self._root, answers.nanoseconds(self._clock.now()))
        return pb.ImageFsInfoResponse(image_filesystems=[found], container_filesystems=[found])
