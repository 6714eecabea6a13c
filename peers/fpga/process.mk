# The main job in one process: all that it takes, for one call of the compiler.
PROCESS_SRCS = $(addprefix softgpu/core/,$(CORE_SRCS)) softgpu/user/common/os.c \
	peers/fpga/process/demo.c peers/fpga/process/card.c peers/fpga/src/screen.c
PROCESS_FLAGS = -Isoftgpu/core -Isoftgpu/user/common -Isoftgpu/include -Ipeers/fpga/src
