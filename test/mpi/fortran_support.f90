! What the cases of test/mpi/fortran.f90 share: buffers, calls and what came of them, by the functions of test/mpi/fortran.c; and
! the operators, with what has to come of them.
module fortran_support
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: begins, ends, fill, compare, complete, reduction, commuting, ordered, layout, folded

  integer, parameter, public :: SENT = 0, RECEIVED = 1, UNTOUCHED = -7
  integer, parameter, public :: BLOCKING = 1, NONBLOCKING = 2
  integer, parameter, public :: REDUCE = 1, ALLREDUCE = 2, SCAN = 3, EXSCAN = 4, SCATTER = 5

  ! How the integers of an element lie, counted in integers.
  type :: layout
    character(12) :: name
    integer :: datatype, width, extent, first
  end type layout

  ! All buffers are arrays of default integers: MPI's subroutines take any type, and other types are copied into them bit by bit.
  integer, pointer, contiguous, public :: send(:), recv(:)
  integer, public :: rank, ranks
  integer :: calls

  interface
    logical(c_bool) function fortran_begin(name) bind(C)
      import :: c_bool, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function fortran_begin
    subroutine fortran_end(natively, copied) bind(C)
      import :: c_int
      integer(c_int), value :: natively, copied
    end subroutine fortran_end
    subroutine fortran_fail(what) bind(C)
      import :: c_char
      character(kind=c_char), intent(in) :: what(*)
    end subroutine fortran_fail
    subroutine fortran_check(code, what) bind(C)
      import :: c_int, c_char
      integer(c_int), value :: code
      character(kind=c_char), intent(in) :: what(*)
    end subroutine fortran_check
    type(c_ptr) function fortran_fill(slot, bytes, count) bind(C)
      import :: c_int, c_size_t, c_ptr
      integer(c_int), value :: slot
      integer(c_int), intent(in) :: bytes(*)
      integer(c_size_t), value :: count
    end function fortran_fill
    subroutine fortran_read(slot, bytes, count) bind(C)
      import :: c_int, c_size_t
      integer(c_int), value :: slot
      integer(c_int), intent(out) :: bytes(*)
      integer(c_size_t), value :: count
    end subroutine fortran_read
  end interface

contains

  logical function begins(name)
    character(*), intent(in) :: name
    calls = 0
    begins = fortran_begin(trim(name)//c_null_char)
  end function begins

  ! Of the case's calls, have all to run natively on gpucoll's engine, or on host copies?
  subroutine ends(natively, copied)
    logical, intent(in) :: natively, copied
    call fortran_end(merge(calls, 0, natively), merge(calls, 0, copied))
  end subroutine ends

  ! The buffers, anew for each call.
  subroutine fill(sending, receiving)
    integer, intent(in) :: sending(:), receiving(:)
    call c_f_pointer(fortran_fill(SENT, sending, bytes_of(sending)), send, [size(sending)])
    call c_f_pointer(fortran_fill(RECEIVED, receiving, bytes_of(receiving)), recv, [size(receiving)])
  end subroutine fill

  integer(c_size_t) function bytes_of(array)
    integer, intent(in) :: array(:)
    bytes_of = size(array, kind=c_size_t) * c_sizeof(0)
  end function bytes_of

  subroutine compare(slot, want)
    integer, intent(in) :: slot, want(:)
    integer :: found(size(want)), at
    character(100) :: text
    call fortran_read(slot, found, bytes_of(want))
    do at = 1, size(want)
      if (found(at) == want(at)) cycle
      write (text, '(a, 4(a, i0))') merge('what it sent, ', 'what it got,  ', slot == SENT), 'call ', calls, ': word ', at, &
        ' is ', found(at), ', not ', want(at)
      call fortran_fail(trim(text)//c_null_char)
      return
    end do
  end subroutine compare

  ! The call returned `code`; a nonblocking one is waited for.
  subroutine complete(form, code, request)
    integer, intent(in) :: form, code
    integer, intent(inout) :: request
    integer :: waited
    calls = calls + 1
    call fortran_check(code, 'the collective'//c_null_char)
    if (form == BLOCKING .or. code /= MPI_SUCCESS) return
    call MPI_Wait(request, MPI_STATUS_IGNORE, waited)
    call fortran_check(waited, 'MPI_Wait'//c_null_char)
  end subroutine complete

  subroutine reduction(collective, form, count, datatype, op, root)
    integer, intent(in) :: collective, form, count, datatype, op, root
    integer :: code, request
    select case (2 * collective + form - 1)
    case (2 * REDUCE);        call MPI_Reduce(send, recv, count, datatype, op, root, MPI_COMM_WORLD, code)
    case (2 * REDUCE + 1);    call MPI_Ireduce(send, recv, count, datatype, op, root, MPI_COMM_WORLD, request, code)
    case (2 * ALLREDUCE);     call MPI_Allreduce(send, recv, count, datatype, op, MPI_COMM_WORLD, code)
    case (2 * ALLREDUCE + 1); call MPI_Iallreduce(send, recv, count, datatype, op, MPI_COMM_WORLD, request, code)
    case (2 * SCAN);          call MPI_Scan(send, recv, count, datatype, op, MPI_COMM_WORLD, code)
    case (2 * SCAN + 1);      call MPI_Iscan(send, recv, count, datatype, op, MPI_COMM_WORLD, request, code)
    case (2 * EXSCAN);        call MPI_Exscan(send, recv, count, datatype, op, MPI_COMM_WORLD, code)
    case (2 * EXSCAN + 1);    call MPI_Iexscan(send, recv, count, datatype, op, MPI_COMM_WORLD, request, code)
    case (2 * SCATTER);       call MPI_Reduce_scatter_block(send, recv, count, datatype, op, MPI_COMM_WORLD, code)
    case (2 * SCATTER + 1);   call MPI_Ireduce_scatter_block(send, recv, count, datatype, op, MPI_COMM_WORLD, request, code)
    end select
    call complete(form, code, request)
  end subroutine reduction

  ! --- Operators in Fortran: one that commutes, and one that does not: the product of 2 x 2 matrices; of integers alone, which each
  ! hold a map x -> a x + b, one map after the other.

  pure function product_of(commutes, left, right) result(both)
    logical, intent(in) :: commutes
    integer, intent(in) :: left(:), right(:)
    integer :: both(size(left)), a, b
    if (commutes) then
      both = left + right + 7
    else if (size(left) == 4) then
      both = reshape(mod(matmul(reshape(left, [2, 2]), reshape(right, [2, 2])), 1009), [4])
    else
      a = mod(left(1) / 251 * (right(1) / 251), 251)
      b = mod(mod(left(1), 251) * (right(1) / 251) + mod(right(1), 251), 251)
      both = 251 * a + b
    end if
  end function product_of

  subroutine apply(commutes, left, both, count, datatype)
    logical, intent(in) :: commutes
    integer, intent(in) :: left(*), count, datatype
    integer, intent(inout) :: both(*)
    integer(MPI_ADDRESS_KIND) :: low, true_low, bytes, extent
    integer :: at, i, last, code
    call MPI_Type_get_true_extent(datatype, true_low, bytes, code)
    call MPI_Type_get_extent(datatype, low, extent, code)
    do i = 0, count - 1
      at = int((i * extent + true_low) / c_sizeof(0)) + 1
      last = at + int(bytes / c_sizeof(0)) - 1
      both(at:last) = product_of(commutes, left(at:last), both(at:last))
    end do
  end subroutine apply

  subroutine commuting(left, both, count, datatype)
    integer :: left(*), both(*), count, datatype
    call apply(.true., left, both, count, datatype)
  end subroutine commuting

  subroutine ordered(left, both, count, datatype)
    integer :: left(*), both(*), count, datatype
    call apply(.false., left, both, count, datatype)
  end subroutine ordered

  ! A buffer of `length` elements from `first` on, as ranks `from` to `upto` together make them; without ranks, one that nobody has
  ! written to.
  function folded(of, commutes, from, upto, first, length) result(image)
    type(layout), intent(in) :: of
    logical, intent(in) :: commutes
    integer, intent(in) :: from, upto, first, length
    integer :: image(of%extent * length), value(of%width), i, r, at
    image = UNTOUCHED
    if (upto < from) return
    do i = 0, length - 1
      value = element(of%width, from, first + i)
      do r = from + 1, upto
        value = product_of(commutes, value, element(of%width, r, first + i))
      end do
      at = of%extent * i + of%first
      image(at + 1:at + of%width) = value
    end do
  end function folded

  pure function element(width, r, i)
    integer, intent(in) :: width, r, i
    integer :: element(width), k
    element = [(251 * (1 + mod(7 * r + 3 * i + k, 250)) + mod(11 * r + 5 * i + 2 * k + 1, 251), k = 1, width)]
    if (width == 4) element = mod(element, 1009)
  end function element

end module fortran_support
