/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca_task.h - stops a task of a queue pair, before Linux 6.4.  Part of rxe_task.c.
 *
 * rxe_disable_task() stops the tasklet alone.  But rxe also runs the task directly, for system calls and for packets that
 * arrive, and a reset would free what the task is using.
 */
#ifndef PEERDMA_HCA_TASK_H
#define PEERDMA_HCA_TASK_H

/* Waits until the task does not run, and prevents that it runs.  May sleep. */
static void hca_task_take(struct rxe_task *task)
{
	bool taken;

	do {
		cond_resched();
		spin_lock_bh(&task->state_lock);
		taken = task->state == TASK_STATE_START;
		if (taken)
			task->state = TASK_STATE_BUSY;
		spin_unlock_bh(&task->state_lock);
	} while (!taken);
}

/*
 * Lets the task run again, once the tasklet is enabled.  If it was requested in the meantime, it is requested again, but not
 * otherwise: in the reset state, the responder drops receive requests, and the program may post new ones from now on.
 */
static void hca_task_give(struct rxe_task *task)
{
	bool requested;

	spin_lock_bh(&task->state_lock);
	requested = task->state == TASK_STATE_ARMED;
	task->state = TASK_STATE_START;
	spin_unlock_bh(&task->state_lock);
	if (requested)
		rxe_sched_task(task);
}

#endif
