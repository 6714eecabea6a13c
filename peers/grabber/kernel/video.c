// SPDX-License-Identifier: MIT OR GPL-2.0
/* video.c - the V4L2 device: one input, two formats, any size up to full HD. */
#include <linux/version.h>
#include <media/v4l2-common.h>
#include <media/v4l2-fh.h>
#include <media/v4l2-ioctl.h>

#include "grabber.h"

#define WIDTH_MIN	64u
#define WIDTH_MAX	1920u
#define WIDTH_STEP	16u
#define HEIGHT_MIN	48u
#define HEIGHT_MAX	1080u
#define HEIGHT_STEP	2u
#define INTERVAL_MIN	(1000000u / 120)
#define INTERVAL_MAX	1000000u

static const u32 formats[] = { V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_GREY };

static void set_size(struct grabber_picture *p, u32 width, u32 height, u32 fourcc)
{
	v4l_bound_align_image(&width, WIDTH_MIN, WIDTH_MAX, ilog2(WIDTH_STEP), &height, HEIGHT_MIN,
			      HEIGHT_MAX, ilog2(HEIGHT_STEP), 0);
	p->width = width;
	p->height = height;
	p->fourcc = fourcc == V4L2_PIX_FMT_GREY ? fourcc : V4L2_PIX_FMT_YUYV;
	p->bytes_per_line = p->fourcc == V4L2_PIX_FMT_GREY ? width : 2 * width;
	p->frame_bytes = round_up(p->bytes_per_line * height, GRABBER_BLOCK);
}

void video_default(struct grabber_picture *picture)
{
	set_size(picture, 640, 360, V4L2_PIX_FMT_YUYV);
	picture->interval_us = 100000;
}

static void tell(const struct grabber_picture *p, struct v4l2_pix_format *pix)
{
	pix->width = p->width;
	pix->height = p->height;
	pix->pixelformat = p->fourcc;
	pix->field = V4L2_FIELD_NONE;
	pix->bytesperline = p->bytes_per_line;
	pix->sizeimage = p->frame_bytes;
	pix->colorspace = V4L2_COLORSPACE_SRGB;
	pix->xfer_func = V4L2_XFER_FUNC_DEFAULT;
	pix->ycbcr_enc = V4L2_YCBCR_ENC_DEFAULT;
	pix->quantization = V4L2_QUANTIZATION_DEFAULT;
}

static int querycap(struct file *file, void *priv, struct v4l2_capability *cap)
{
	strscpy(cap->driver, KBUILD_MODNAME, sizeof(cap->driver));
	strscpy(cap->card, "peerdma grabber", sizeof(cap->card));
	return 0;
}

static int enum_fmt(struct file *file, void *priv, struct v4l2_fmtdesc *f)
{
	if (f->index >= ARRAY_SIZE(formats))
		return -EINVAL;
	f->pixelformat = formats[f->index];
	return 0;
}

static int g_fmt(struct file *file, void *priv, struct v4l2_format *f)
{
	struct grabber *g = video_drvdata(file);

	tell(&g->picture, &f->fmt.pix);
	return 0;
}

static int try_fmt(struct file *file, void *priv, struct v4l2_format *f)
{
	struct grabber_picture p;

	set_size(&p, f->fmt.pix.width, f->fmt.pix.height, f->fmt.pix.pixelformat);
	tell(&p, &f->fmt.pix);
	return 0;
}

static int s_fmt(struct file *file, void *priv, struct v4l2_format *f)
{
	struct grabber *g = video_drvdata(file);

	if (vb2_is_busy(&g->queue))
		return -EBUSY;
	set_size(&g->picture, f->fmt.pix.width, f->fmt.pix.height, f->fmt.pix.pixelformat);
	tell(&g->picture, &f->fmt.pix);
	return 0;
}

static bool known(u32 fourcc)
{
	return fourcc == V4L2_PIX_FMT_YUYV || fourcc == V4L2_PIX_FMT_GREY;
}

static int enum_framesizes(struct file *file, void *priv, struct v4l2_frmsizeenum *s)
{
	if (s->index || !known(s->pixel_format))
		return -EINVAL;
	s->type = V4L2_FRMSIZE_TYPE_STEPWISE;
	s->stepwise = (struct v4l2_frmsize_stepwise){
		WIDTH_MIN, WIDTH_MAX, WIDTH_STEP, HEIGHT_MIN, HEIGHT_MAX, HEIGHT_STEP
	};
	return 0;
}

static int enum_frameintervals(struct file *file, void *priv, struct v4l2_frmivalenum *i)
{
	if (i->index || !known(i->pixel_format) || i->width < WIDTH_MIN || i->width > WIDTH_MAX ||
	    i->width % WIDTH_STEP || i->height < HEIGHT_MIN || i->height > HEIGHT_MAX ||
	    i->height % HEIGHT_STEP)
		return -EINVAL;
	i->type = V4L2_FRMIVAL_TYPE_CONTINUOUS;
	i->stepwise.min = (struct v4l2_fract){ INTERVAL_MIN, 1000000 };
	i->stepwise.max = (struct v4l2_fract){ INTERVAL_MAX, 1000000 };
	i->stepwise.step = (struct v4l2_fract){ 1, 1 };
	return 0;
}

static int g_parm(struct file *file, void *priv, struct v4l2_streamparm *parm)
{
	struct grabber *g = video_drvdata(file);
	struct v4l2_captureparm *capture = &parm->parm.capture;

	if (parm->type != V4L2_BUF_TYPE_VIDEO_CAPTURE)
		return -EINVAL;
	memset(capture, 0, sizeof(*capture));
	capture->capability = V4L2_CAP_TIMEPERFRAME;
	capture->timeperframe = (struct v4l2_fract){ g->picture.interval_us, 1000000 };
	capture->readbuffers = 2;
	return 0;
}

static int s_parm(struct file *file, void *priv, struct v4l2_streamparm *parm)
{
	struct grabber *g = video_drvdata(file);
	const struct v4l2_fract *t = &parm->parm.capture.timeperframe;
	u64 us;

	if (parm->type != V4L2_BUF_TYPE_VIDEO_CAPTURE)
		return -EINVAL;
	if (vb2_is_streaming(&g->queue))
		return -EBUSY;
	us = t->numerator && t->denominator ?
		div_u64(1000000ull * t->numerator, t->denominator) : 100000;
	g->picture.interval_us = clamp_t(u64, us, INTERVAL_MIN, INTERVAL_MAX);
	return g_parm(file, priv, parm);
}

static int enum_input(struct file *file, void *priv, struct v4l2_input *input)
{
	if (input->index)
		return -EINVAL;
	input->type = V4L2_INPUT_TYPE_CAMERA;
	strscpy(input->name, "Camera on the wire", sizeof(input->name));
	return 0;
}

static int g_input(struct file *file, void *priv, unsigned int *i)
{
	*i = 0;
	return 0;
}

static int s_input(struct file *file, void *priv, unsigned int i)
{
	return i ? -EINVAL : 0;
}

static int log_status(struct file *file, void *priv)
{
	clients_log(video_drvdata(file));
	return 0;
}

static const struct v4l2_ioctl_ops ioctls = {
	.vidioc_querycap = querycap,
	.vidioc_enum_fmt_vid_cap = enum_fmt,
	.vidioc_g_fmt_vid_cap = g_fmt,
	.vidioc_try_fmt_vid_cap = try_fmt,
	.vidioc_s_fmt_vid_cap = s_fmt,
	.vidioc_enum_framesizes = enum_framesizes,
	.vidioc_enum_frameintervals = enum_frameintervals,
	.vidioc_g_parm = g_parm,
	.vidioc_s_parm = s_parm,
	.vidioc_enum_input = enum_input,
	.vidioc_g_input = g_input,
	.vidioc_s_input = s_input,
	.vidioc_log_status = log_status,
	.vidioc_reqbufs = vb2_ioctl_reqbufs,
	.vidioc_create_bufs = vb2_ioctl_create_bufs,
	.vidioc_prepare_buf = vb2_ioctl_prepare_buf,
	.vidioc_querybuf = vb2_ioctl_querybuf,
	.vidioc_qbuf = vb2_ioctl_qbuf,
	.vidioc_dqbuf = vb2_ioctl_dqbuf,
	.vidioc_expbuf = vb2_ioctl_expbuf,
	.vidioc_streamon = vb2_ioctl_streamon,
	.vidioc_streamoff = vb2_ioctl_streamoff,
};

static const struct v4l2_file_operations fops = {
	.owner = THIS_MODULE,
	.open = v4l2_fh_open,
	.release = vb2_fop_release,
	.read = vb2_fop_read,
	.poll = vb2_fop_poll,
	.mmap = vb2_fop_mmap,
	.unlocked_ioctl = video_ioctl2,
};

int video_init(struct grabber *g)
{
	struct video_device *video = &g->video;

	strscpy(video->name, KBUILD_MODNAME, sizeof(video->name));
	video->v4l2_dev = &g->v4l2;
	video->fops = &fops;
	video->ioctl_ops = &ioctls;
	video->queue = &g->queue;
	video->lock = &g->lock;
	video->device_caps = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING | V4L2_CAP_READWRITE;
	/* It is part of struct grabber, which v4l2_device's release frees. */
	video->release = video_device_release_empty;
	video_set_drvdata(video, g);
	return video_register_device(video, VFL_TYPE_VIDEO, -1);
}
