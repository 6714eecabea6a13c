// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * device.c - finds the adapter's PCI function, and makes sure that rdma_rxe is not loaded
 * as well.
 *
 * Both drivers use UDP port 4791 and have the same driver id.  User space finds its
 * provider by this id, and the kernel finds the devices to unregister when a module is
 * unloaded.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>

#include "rxe.h"
#include "rxe_loc.h"

#include "hca.h"

static const char other[] = "rdma_rxe";

/* ---- the PCI function ---- */

/*
 * The thread that unbinds the driver holds the lock, and waits until there is no reference to the
 * net device, which our caller has.  So this must not wait for the lock without end.
 */
static int lock_soon(struct device *dev)
{
	unsigned long end = jiffies + HZ / 2;

	while (!device_trylock(dev)) {
		if (time_after(jiffies, end))
			return -EBUSY;
		if (msleep_interruptible(10))
			return -EINTR;
	}
	return 0;
}

struct device *hca_lock_function(struct net_device *ndev)
{
	struct device *dev = ndev->dev.parent;
	int err;

	while (dev && !dev_is_pci(dev))
		dev = dev->parent;
	if (!dev)
		return NULL;
	get_device(dev);
	err = lock_soon(dev);
	if (!err)
		return dev;
	if (err == -EBUSY)
		pr_notice("%s: no adapter is made: the driver of %s is being bound or unbound\n", ndev->name, dev_name(dev));
	put_device(dev);
	return ERR_PTR(err);
}

void hca_unlock_function(struct device *dev)
{
	if (IS_ERR_OR_NULL(dev))
		return;
	device_unlock(dev);
	put_device(dev);
}

void hca_set_parent(struct ib_device *ibdev, struct net_device *ndev, struct device *dev)
{
	if (dev) {
		ibdev->dev.parent = dev;
		pr_info("%s: the adapter is PCI function %s\n", ndev->name, dev_name(dev));
	} else {
		pr_info("%s is not a PCI function: its adapter reaches host memory only\n", ndev->name);
	}
}

/* Returns an adapter of that function with a reference to its device; NULL: none is left. */
static struct ib_device *adapter_of(const struct device *dev)
{
	struct ib_device *found = NULL;
	struct net_device *ndev;
	struct rxe_dev *rxe;
	struct net *net;

	rtnl_lock();
	down_read(&net_rwsem);
	for_each_net(net) {
		for_each_netdev(net, ndev) {
			rxe = found ? NULL : rxe_get_dev_from_net(ndev);
			if (rxe && rxe->ib_dev.dev.parent == dev)
				found = &rxe->ib_dev;
			else if (rxe)
				ib_device_put(&rxe->ib_dev);
		}
	}
	up_read(&net_rwsem);
	rtnl_unlock();
	return found;
}

/*
 * A PCI function loses its driver.  If it is an adapter's, then without this the adapter
 * would end only some time after its net device is gone; memory that is mapped for the
 * function must not stay mapped that long.  The caller holds the function's device lock, so
 * that no adapter is made meanwhile.
 */
static int function_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct ib_device *ibdev;

	/* Until its driver is gone, memory may be registered. */
	if (event == BUS_NOTIFY_UNBIND_DRIVER || event == BUS_NOTIFY_UNBOUND_DRIVER)
		hca_device_gone(to_pci_dev(data));
	if (event != BUS_NOTIFY_UNBIND_DRIVER)
		return NOTIFY_DONE;
	while ((ibdev = adapter_of(data))) {
		dev_info(data, "its driver is unbound: %s is removed once no program uses it\n", dev_name(&ibdev->dev));
		rtnl_lock();
		rxe_net_del(ibdev);
		rtnl_unlock();
		ib_unregister_device_and_put(ibdev);
	}
	return NOTIFY_OK;
}

static struct notifier_block function_notifier = { .notifier_call = function_event };

/* ---- rdma_rxe ---- */

static bool other_is_loaded(void)
{
	struct kobject *kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, other);

	kobject_put(kobj);
	return kobj;
}

static int module_event(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct module *module = data;

	if (event != MODULE_STATE_COMING || strcmp(module->name, other))
		return NOTIFY_DONE;
	pr_err("%s is refused: this module uses the same UDP port and driver id; rmmod %s first\n", other,
	       KBUILD_MODNAME);
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block module_notifier = { .notifier_call = module_event };

int hca_start(void)
{
	int err = hca_dmabuf_start();

	if (err)
		return err;
	err = register_module_notifier(&module_notifier);
	if (err)
		goto no_notifier;
	if (other_is_loaded()) {
		pr_err("not loaded: %s uses the same UDP port and driver id; rmmod %s first\n", other, other);
		err = -EBUSY;
		goto no_other;
	}
	err = bus_register_notifier(&pci_bus_type, &function_notifier);
	if (err)
		goto no_other;
	pr_info("a software RDMA adapter for development, instead of %s: rdma link add NAME type rxe netdev NETDEV\n",
		other);
	return 0;

no_other:
	unregister_module_notifier(&module_notifier);
no_notifier:
	hca_dmabuf_stop();
	return err;
}

void hca_stop(void)
{
	bus_unregister_notifier(&pci_bus_type, &function_notifier);
	unregister_module_notifier(&module_notifier);
	hca_dmabuf_stop();
}
