! The part of Fortran's module mpi that the examples use, over the C functions of an MPICH: for an MPI without Fortran,
! such as the wheel of PyPI. With an MPI that has `use mpi`, leave this file out.
module mpi
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: MPI_Init, MPI_Finalize, MPI_Abort, MPI_Comm_rank, MPI_Comm_size, MPI_Dims_create
  public :: MPI_Sendrecv, MPI_Reduce, MPI_Wtime

  ! Handles of MPICH's C binding are numbers, and the same as in its Fortran. For the standard ABI of MPI-5 they are as
  ! wide as pointers, and these lines are others (docs/guide-fortran.md).
  integer, parameter :: handle = c_int
  integer(handle), parameter, public :: MPI_COMM_WORLD = 1140850688         ! 0x44000000
  integer(handle), parameter, public :: MPI_DOUBLE_PRECISION = 1275070475   ! 0x4c00080b, C's double
  integer(handle), parameter, public :: MPI_INTEGER8 = 1275070522           ! 0x4c00083a, C's int64_t
  integer(handle), parameter, public :: MPI_SUM = 1476395011                ! 0x58000003
  integer, parameter, public :: MPI_PROC_NULL = -1, MPI_STATUS_SIZE = 5
  integer, public :: MPI_STATUS_IGNORE(MPI_STATUS_SIZE)             ! ignored, whatever is passed

  interface
    integer(c_int) function c_init(argc, argv) bind(c, name='MPI_Init')
      import :: c_int, c_ptr
      type(c_ptr), value :: argc, argv
    end function
    integer(c_int) function c_finalize() bind(c, name='MPI_Finalize')
      import :: c_int
    end function
    integer(c_int) function c_abort(comm, code) bind(c, name='MPI_Abort')
      import :: c_int, handle
      integer(handle), value :: comm
      integer(c_int), value :: code
    end function
    integer(c_int) function c_comm_rank(comm, rank) bind(c, name='MPI_Comm_rank')
      import :: c_int, handle
      integer(handle), value :: comm
      integer(c_int), intent(out) :: rank
    end function
    integer(c_int) function c_comm_size(comm, size) bind(c, name='MPI_Comm_size')
      import :: c_int, handle
      integer(handle), value :: comm
      integer(c_int), intent(out) :: size
    end function
    integer(c_int) function c_dims_create(nodes, count, dims) bind(c, name='MPI_Dims_create')
      import :: c_int
      integer(c_int), value :: nodes, count
      integer(c_int), intent(inout) :: dims(*)
    end function
    integer(c_int) function c_sendrecv(sent, sent_count, sent_type, to, sent_tag, got, got_count, got_type, from, &
                                       got_tag, comm, status) bind(c, name='MPI_Sendrecv')
      import :: c_int, handle, MPI_STATUS_SIZE
      !GCC$ attributes no_arg_check :: sent, got
      type(*) :: sent(*), got(*)
      integer(handle), value :: sent_type, got_type, comm
      integer(c_int), value :: sent_count, to, sent_tag, got_count, from, got_tag
      integer(c_int), intent(out) :: status(MPI_STATUS_SIZE)
    end function
    integer(c_int) function c_reduce(sent, got, count, type, operation, root, comm) bind(c, name='MPI_Reduce')
      import :: c_int, handle
      !GCC$ attributes no_arg_check :: sent, got
      type(*) :: sent(*), got(*)
      integer(handle), value :: type, operation, comm
      integer(c_int), value :: count, root
    end function
    real(c_double) function c_wtime() bind(c, name='MPI_Wtime')
      import :: c_double
    end function
  end interface

contains

  subroutine MPI_Init(ierror)
    integer, intent(out) :: ierror
    ierror = c_init(c_null_ptr, c_null_ptr)
  end subroutine

  subroutine MPI_Finalize(ierror)
    integer, intent(out) :: ierror
    ierror = c_finalize()
  end subroutine

  subroutine MPI_Abort(comm, code, ierror)
    integer(handle), intent(in) :: comm
    integer, intent(in) :: code
    integer, intent(out) :: ierror
    ierror = c_abort(comm, code)
  end subroutine

  subroutine MPI_Comm_rank(comm, rank, ierror)
    integer(handle), intent(in) :: comm
    integer, intent(out) :: rank, ierror
    ierror = c_comm_rank(comm, rank)
  end subroutine

  subroutine MPI_Comm_size(comm, size, ierror)
    integer(handle), intent(in) :: comm
    integer, intent(out) :: size, ierror
    ierror = c_comm_size(comm, size)
  end subroutine

  subroutine MPI_Dims_create(nodes, count, dims, ierror)
    integer, intent(in) :: nodes, count
    integer, intent(inout) :: dims(*)
    integer, intent(out) :: ierror
    ierror = c_dims_create(nodes, count, dims)
  end subroutine

  subroutine MPI_Sendrecv(sent, sent_count, sent_type, to, sent_tag, got, got_count, got_type, from, got_tag, comm, &
                          status, ierror)
    !GCC$ attributes no_arg_check :: sent, got
    type(*) :: sent(*), got(*)
    integer(handle), intent(in) :: sent_type, got_type, comm
    integer, intent(in) :: sent_count, to, sent_tag, got_count, from, got_tag
    integer, intent(out) :: status(MPI_STATUS_SIZE), ierror
    ierror = c_sendrecv(sent, sent_count, sent_type, to, sent_tag, got, got_count, got_type, from, got_tag, comm, status)
  end subroutine

  subroutine MPI_Reduce(sent, got, count, type, operation, root, comm, ierror)
    !GCC$ attributes no_arg_check :: sent, got
    type(*) :: sent(*), got(*)
    integer(handle), intent(in) :: type, operation, comm
    integer, intent(in) :: count, root
    integer, intent(out) :: ierror
    ierror = c_reduce(sent, got, count, type, operation, root, comm)
  end subroutine

  double precision function MPI_Wtime()
    MPI_Wtime = c_wtime()
  end function
end module
