/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "bench/ffcv.h"

#include <errno.h>

#include <vector>

#include <opencv2/imgproc.hpp>
#include <turbojpeg.h>

struct ffcv_way {
    tjhandle jpeg;
    std::vector<uint8_t> pixels;
};

int ffcv_way_create(struct ffcv_way **ret)
{
    tjhandle jpeg = tjInitDecompress();

    if (!jpeg)
        return -ENOMEM;
    cv::setNumThreads(1);
    *ret = new ffcv_way{jpeg, {}};
    return 0;
}

void ffcv_way_destroy(struct ffcv_way *way)
{
    if (!way)
        return;
    (void)tjDestroy(way->jpeg);
    delete way;
}

/* A cv::Mat needs a non-const pointer, but the pixels are not written to. */
static void shrink(void *pixels, int width, int height, const struct rect *box, uint32_t side,
                   uint8_t *dst)
{
    int n = static_cast<int>(side);
    cv::Mat whole(height, width, CV_8UC3, pixels), out(n, n, CV_8UC3, dst);
    cv::Mat crop = whole(cv::Rect(static_cast<int>(box->left), static_cast<int>(box->top),
                                  static_cast<int>(box->width), static_cast<int>(box->height)));

    cv::resize(crop, out, out.size(), 0, 0, cv::INTER_AREA);
}

void ffcv_way_render_raw(const struct ffcv_raw *raw, const struct rect *box, bool mirror,
                         uint32_t side, uint8_t *dst)
{
    cv::Mat out(static_cast<int>(side), static_cast<int>(side), CV_8UC3, dst);

    shrink(const_cast<uint8_t *>(raw->pixels), static_cast<int>(raw->width),
           static_cast<int>(raw->height), box, side, dst);
    if (mirror)
        cv::flip(out, out, 1);
}

int ffcv_way_render(struct ffcv_way *way, const uint8_t *bytes, size_t len, const struct rect *box,
                    uint32_t side, uint8_t *dst)
{
    int width, height, sampling, space;

    if (tjDecompressHeader3(way->jpeg, bytes, len, &width, &height, &sampling, &space) < 0)
        return -EBADMSG;
    way->pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    if (tjDecompress2(way->jpeg, bytes, len, way->pixels.data(), width, 0, height, TJPF_RGB,
                      TJFLAG_FASTDCT) < 0)
        return -EBADMSG;
    shrink(way->pixels.data(), width, height, box, side, dst);
    return 0;
}
