// SPDX-License-Identifier: MIT
/*
 * screen.c - the live view.
 *
 * Plain ANSI sequences, which every terminal of today takes, rather than ncurses:
 * what is shown is written anew as a whole each time, there are no windows and no
 * fields, so all that a library would do here is six sequences, at the price of one
 * more thing that has to be installed where the command runs.
 *
 * Signals come by a descriptor: the terminal is given back whatever ends this.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "top.h"

#define ENTER	"\033[?1049h\033[?25l"	/* the other screen, no cursor */
#define LEAVE	"\033[?25h\033[?1049l"
#define HOME	"\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"
#define BOLD	"\033[1m"
#define PLAIN	"\033[0m"

struct screen {
	const struct tool *tool;
	struct top_wish wish;
	struct termios before;
	int signals;
	unsigned int rows, columns;
	bool help;
};

static const char help_text[] =
	"\n"
	"  q        quit\n"
	"  space    look now\n"
	"  + -      longer, shorter intervals\n"
	"  h g d r p n   processes by bytes held, gets, DMA, revocations, PID, name\n"
	"  ?        this, and back\n"
	"\n"
	"  HELD     bytes that pins hold; REVOKED pins hold no call\n"
	"  HITS     of the gets since the look before; HITS,ALL since the caches were made\n"
	"  ENDED    regions whose memory was freed\n"
	"  DMA      as reported by drivers that count it by process\n";

static void size(struct screen *s)
{
	struct winsize w;

	s->rows = 24;
	s->columns = 80;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w)) {
		if (w.ws_row)
			s->rows = w.ws_row;
		if (w.ws_col)
			s->columns = w.ws_col;
	}
}

static void enter(struct screen *s)
{
	struct termios raw = s->before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	fputs(ENTER, stdout);
}

static void leave(struct screen *s)
{
	fputs(LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

/*
 * The bytes that fit into a row, of characters of one column each: up to where two blanks are, which part what a line
 * has, or one; else as many as there are columns.
 */
static size_t fit(const char *text, size_t length, unsigned int columns)
{
	size_t n = 0, blank = 0, blanks = 0;
	unsigned int shown = 0;

	for (; n < length; n++) {
		shown += (text[n] & 0xc0) != 0x80;
		if (shown > columns)
			break;
		if (n && text[n] == ' ')
			*(text[n - 1] == ' ' ? &blanks : &blank) = n;
	}
	if (n == length || text[n] == ' ')
		return n;
	return blanks > n / 2 ? blanks : blank > n / 2 ? blank : n;
}

/* A line, in as many rows as it needs and there are; returns the row after it. */
static unsigned int line(const struct screen *s, const char *text, size_t length, unsigned int row)
{
	unsigned int indent = 0;

	do {
		size_t n = fit(text, length, s->columns - indent);

		if (row >= s->rows)
			return row;
		if (row++)
			fputc('\n', stdout);
		printf("%*s", (int)indent, "");
		fwrite(text, 1, n, stdout);
		fputs(CLEAR_LINE, stdout);
		while (n < length && text[n] == ' ')
			n++;
		text += n;
		length -= n;
		indent = s->columns > 40 ? 4 : 0;
	} while (length);
	return row;
}

static void show(struct screen *s, const struct top_sample *now)
{
	char *text = NULL, clock[16] = "", title[160];
	size_t length = 0;
	unsigned int row;
	time_t t = time(NULL);
	struct tm tm;
	FILE *to;

	to = open_memstream(&text, &length);
	if (!to)
		return;
	if (s->help)
		fputs(help_text, to);
	else
		top_text(s->tool, now, s->wish.order, s->columns, to);
	if (fclose(to)) {
		free(text);
		return;
	}
	if (localtime_r(&t, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	snprintf(title, sizeof(title), "peerdma top  %s  every %g s, by %s  (q quits, ? helps)",
		 clock, s->wish.delay, top_order_name(s->wish.order));
	fputs(HOME BOLD, stdout);
	/* The title is one row, whatever that loses: the figures need the others. */
	row = line(s, title, strnlen(title, s->columns), 0);
	fputs(PLAIN, stdout);
	for (const char *at = text; *at && row < s->rows;) {
		size_t n = strcspn(at, "\n");

		row = line(s, at, n, row);
		at += n + (at[n] == '\n');
	}
	fputs(CLEAR_REST, stdout);
	fflush(stdout);
	free(text);
}

enum next { NEXT_WAIT, NEXT_SHOW, NEXT_LOOK, NEXT_END };

static enum next key(struct screen *s)
{
	static const struct {
		char key;
		enum top_order order;
	} orders[] = {
		{ 'h', TOP_BY_HELD }, { 'g', TOP_BY_GETS }, { 'd', TOP_BY_DMA },
		{ 'r', TOP_BY_REVOCATIONS }, { 'p', TOP_BY_PID },
		{ 'n', TOP_BY_NAME },
	};
	char c;

	if (read(STDIN_FILENO, &c, 1) != 1)
		return NEXT_END;	/* the terminal is gone */
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (c == orders[i].key) {
			s->wish.order = orders[i].order;
			return NEXT_SHOW;
		}
	}
	switch (c) {
	case 'q':
	case 4:		/* end of file, as typed */
		return NEXT_END;
	case ' ':
		return NEXT_LOOK;
	case '+':
		s->wish.delay = s->wish.delay < 1800 ? s->wish.delay * 2 : 3600;
		return NEXT_SHOW;
	case '-':
		s->wish.delay = s->wish.delay > 0.2 ? s->wish.delay / 2 : 0.1;
		return NEXT_SHOW;
	case '?':
		s->help = !s->help;
		return NEXT_SHOW;
	default:
		return NEXT_WAIT;
	}
}

static enum next signalled(struct screen *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return NEXT_WAIT;
	switch (info.ssi_signo) {
	case SIGWINCH:
		size(s);
		return NEXT_SHOW;
	case SIGTSTP:
		leave(s);
		raise(SIGSTOP);
		enter(s);
		size(s);
		return NEXT_SHOW;
	default:
		return NEXT_END;
	}
}

static double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Until the next look, at most; a key or a signal may say something else. */
static enum next wait_for(struct screen *s, double looked)
{
	struct pollfd fds[] = { { STDIN_FILENO, POLLIN, 0 }, { s->signals, POLLIN, 0 } };
	double left = looked + s->wish.delay - now_seconds();
	enum next next = NEXT_WAIT;

	if (left <= 0)
		return NEXT_LOOK;
	if (poll(fds, 2, (int)(left * 1000) + 1) < 0)
		return errno == EINTR ? NEXT_WAIT : NEXT_END;
	if (fds[1].revents)
		next = signalled(s);
	if (next != NEXT_END && fds[0].revents) {
		enum next by_key = key(s);

		next = by_key > next ? by_key : next;
	}
	return next;
}

static int run(struct screen *s)
{
	struct top_sample before = { 0 }, now = { 0 };
	bool have = false;
	int ret = 0;

	for (uint64_t looks = 0; !ret && (!s->wish.count || looks < s->wish.count); looks++) {
		enum next next;

		before = now;
		ret = top_look(s->tool, &now);
		if (!ret && have)
			top_rates(&before, &now);
		top_free(&before);
		if (ret)
			break;
		have = true;
		do {
			top_sort(&now, s->wish.order);
			show(s, &now);
			do
				next = wait_for(s, now.time);
			while (next == NEXT_WAIT);
		} while (next == NEXT_SHOW);
		if (next == NEXT_END)
			break;
	}
	top_free(&now);
	return ret;
}

int top_screen(const struct tool *tool, const struct top_wish *wish)
{
	struct screen s = { .tool = tool, .wish = *wish };
	sigset_t mask, old;
	int ret;

	if (tcgetattr(STDIN_FILENO, &s.before)) {
		warn("top: the terminal: %s", strerror(errno));
		return EXIT_ERROR;
	}
	sigemptyset(&mask);
	for (size_t i = 0; i < 5; i++)
		sigaddset(&mask, (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP }[i]);
	sigprocmask(SIG_BLOCK, &mask, &old);
	s.signals = signalfd(-1, &mask, SFD_CLOEXEC);
	if (s.signals < 0) {
		warn("top: signals: %s", strerror(errno));
		sigprocmask(SIG_SETMASK, &old, NULL);
		return EXIT_ERROR;
	}
	size(&s);
	enter(&s);
	ret = run(&s);
	leave(&s);
	close(s.signals);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (ret)
		warn("top: out of memory");
	return ret ? EXIT_ERROR : EXIT_OK;
}
