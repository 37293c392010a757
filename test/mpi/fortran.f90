! What only programs in Fortran pass to MPI: its MPI_IN_PLACE and MPI_BOTTOM, which are addresses of their own; its datatypes and
! its .true.; operators written in it, which Open MPI calls another way than C's, with Fortran's handle of a datatype. Cases call
! blocking or nonblocking forms on device memory, and compare whole buffers, gaps included, with what each rank works out by itself.
! test/mpi/fortran.c has main.
module fortran_test
  use mpi
  use fortran_support
  implicit none
  private
  public :: fortran_cases

  ! Elements: few, and so many that Open MPI's algorithms for them are others.
  integer, parameter :: FEW = 3, MANY = 5000
  character(*), parameter :: FORMS(2) = [character(12) :: '/blocking', '/nonblocking']
  character(*), parameter :: COLLECTIVES(5) = &
    [character(21) :: '/reduce', '/allreduce', '/scan', '/exscan', '/reduce_scatter_block']

contains

  subroutine fortran_cases() bind(C)
    integer :: code, form
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
    do form = BLOCKING, NONBLOCKING
      call in_place(form)
      call from_bottom(form)
      call sums(form)
      call places_of_maxima(form)
      call logicals(form)
      call own_operators(form)
    end do
  end subroutine fortran_cases

  ! --- MPI_IN_PLACE and MPI_BOTTOM. They are known by their addresses, so each call names them itself.

  subroutine in_place(form)
    integer, intent(in) :: form
    integer :: code, request, root, i, r
    integer :: mine(MANY), total(MANY), all_blocks(MANY, 0:ranks - 1), one_block(MANY, 0:ranks - 1)
    all_blocks = reshape([((1000 * r + i, i = 1, MANY), r = 0, ranks - 1)], shape(all_blocks))
    mine = all_blocks(:, rank)
    total = sum(all_blocks, dim=2)
    if (begins('in_place/allreduce'//FORMS(form))) then
      call fill([0], mine)
      if (form == BLOCKING) call MPI_Allreduce(MPI_IN_PLACE, recv, MANY, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
      if (form /= BLOCKING) call MPI_Iallreduce(MPI_IN_PLACE, recv, MANY, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, code)
      call complete(form, code, request)
      call compare(RECEIVED, total)
      call ends(natively=.true., copied=.false.)
    end if
    if (begins('in_place/reduce'//FORMS(form))) then
      do root = 0, ranks - 1
        call fill(mine, mine)
        if (rank /= root) then
          call reduction(REDUCE, form, MANY, MPI_INTEGER, MPI_SUM, root)
          call compare(RECEIVED, mine)
          cycle
        end if
        if (form == BLOCKING) call MPI_Reduce(MPI_IN_PLACE, recv, MANY, MPI_INTEGER, MPI_SUM, root, MPI_COMM_WORLD, code)
        if (form /= BLOCKING) call MPI_Ireduce(MPI_IN_PLACE, recv, MANY, MPI_INTEGER, MPI_SUM, root, MPI_COMM_WORLD, &
                                             request, code)
        call complete(form, code, request)
        call compare(RECEIVED, total)
      end do
      call ends(natively=.true., copied=.false.)
    end if
    if (begins('in_place/allgather'//FORMS(form))) then
      one_block = UNTOUCHED
      one_block(:, rank) = mine
      call fill([0], reshape(one_block, [size(one_block)]))
      if (form == BLOCKING) call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, MANY, MPI_INTEGER, MPI_COMM_WORLD, code)
      if (form /= BLOCKING) call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, MANY, MPI_INTEGER, &
                                              MPI_COMM_WORLD, request, code)
      call complete(form, code, request)
      call compare(RECEIVED, reshape(all_blocks, [size(all_blocks)]))
      call ends(natively=ranks > 1, copied=.false.)
    end if
  end subroutine in_place

  ! One element of a type of addresses: integers of one buffer, every other double of the other.
  subroutine from_bottom(form)
    integer, intent(in) :: form
    integer :: code, request, root, i, datatype, doubles
    integer(MPI_ADDRESS_KIND) :: addresses(2)
    integer :: whole(FEW), apart(4, MANY)
    if (.not. begins('bottom/bcast'//FORMS(form))) return
    do root = 0, ranks - 1
      call fill(values(rank), reshape(pairs(rank), [4 * MANY]))
      call MPI_Get_address(send(1), addresses(1), code)
      call MPI_Get_address(recv(1), addresses(2), code)
      call MPI_Type_vector(MANY, 1, 2, MPI_DOUBLE_PRECISION, doubles, code)
      call MPI_Type_create_struct(2, [FEW, 1], addresses, [MPI_INTEGER, doubles], datatype, code)
      call MPI_Type_commit(datatype, code)
      if (form == BLOCKING) call MPI_Bcast(MPI_BOTTOM, 1, datatype, root, MPI_COMM_WORLD, code)
      if (form /= BLOCKING) call MPI_Ibcast(MPI_BOTTOM, 1, datatype, root, MPI_COMM_WORLD, request, code)
      call complete(form, code, request)
      call MPI_Type_free(datatype, code)
      call MPI_Type_free(doubles, code)
      whole = values(root)
      apart = pairs(root)
      apart(3:4, :) = UNTOUCHED
      call compare(SENT, whole)
      call compare(RECEIVED, reshape(apart, [4 * MANY]))
    end do
    call ends(natively=.false., copied=ranks > 1)
  contains
    function values(r)
      integer, intent(in) :: r
      integer :: values(FEW)
      values = [(100 * r + i, i = 1, FEW)]
    end function values
    function pairs(r)
      integer, intent(in) :: r
      integer :: pairs(4, MANY)
      pairs = UNTOUCHED
      do i = 1, MANY
        pairs(1:2, i) = transfer(r + i / 8d0, [0])
      end do
    end function pairs
  end subroutine from_bottom

  ! --- Datatypes

  ! An all-reduce of MANY elements whose bits are these.
  subroutine predefined(name, form, datatype, op, mine, want)
    character(*), intent(in) :: name
    integer, intent(in) :: form, datatype, op, mine(:), want(:)
    integer :: i
    if (.not. begins(name//FORMS(form))) return
    call fill(mine, [(UNTOUCHED, i = 1, size(want))])
    call reduction(ALLREDUCE, form, MANY, datatype, op, 0)
    call compare(SENT, mine)
    call compare(RECEIVED, want)
    call ends(natively=.true., copied=.false.)
  end subroutine predefined

  ! Halves, whose sums are exact in every type and order.
  subroutine sums(form)
    integer, intent(in) :: form
    integer :: i
    double precision :: x(MANY), y(MANY)
    x = [(rank * 17 + i / 2d0, i = 1, MANY)]
    y = [(ranks * (ranks - 1) / 2 * 17 + ranks * i / 2d0, i = 1, MANY)]
    call predefined('sum/integer', form, MPI_INTEGER, MPI_SUM, int(2 * x), int(2 * y))
    call predefined('sum/real', form, MPI_REAL, MPI_SUM, transfer(real(x), [0]), transfer(real(y), [0]))
    call predefined('sum/double_precision', form, MPI_DOUBLE_PRECISION, MPI_SUM, transfer(x, [0]), transfer(y, [0]))
    call predefined('sum/complex', form, MPI_COMPLEX, MPI_SUM, transfer(cmplx(x, -2 * x, kind(0.0)), [0]), &
                    transfer(cmplx(y, -2 * y, kind(0.0)), [0]))
    call predefined('sum/double_complex', form, MPI_DOUBLE_COMPLEX, MPI_SUM, transfer(cmplx(x, -2 * x, kind(0d0)), [0]), &
                    transfer(cmplx(y, -2 * y, kind(0d0)), [0]))
  end subroutine sums

  ! Few different values, so that ranks tie: then the lowest place counts, which is not that of the lowest rank.
  subroutine places_of_maxima(form)
    integer, intent(in) :: form
    integer :: mine(2, MANY), want(2, MANY), others(2, MANY), r
    mine = located(rank)
    want = located(0)
    do r = 1, ranks - 1
      others = located(r)
      where (spread(others(1, :) > want(1, :) .or. (others(1, :) == want(1, :) .and. others(2, :) < want(2, :)), 1, 2)) &
        want = others
    end do
    call predefined('maxloc/2integer', form, MPI_2INTEGER, MPI_MAXLOC, reshape(mine, [2 * MANY]), reshape(want, [2 * MANY]))
    call predefined('maxloc/2double_precision', form, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, transfer(dble(mine), [0]), &
                    transfer(dble(want), [0]))
  end subroutine places_of_maxima

  function located(r)
    integer, intent(in) :: r
    integer :: located(2, MANY), i
    do i = 1, MANY
      located(:, i) = [mod(5 * i + i / 3 * r, 3) - 1, mod(i * (ranks - r), 11)]
    end do
  end function located

  ! The result has to have the bits of the compiler's own .true., not only to be something other than 0.
  subroutine logicals(form)
    integer, intent(in) :: form
    logical :: values(MANY, 0:ranks - 1), odd(MANY)
    integer :: i, r
    values = reshape([((mod(i * (r + 2), 7) < 3 .or. mod(i, 5) == 0, i = 1, MANY), r = 0, ranks - 1)], shape(values)) &
             .and. spread([(mod(i, 3) /= 0, i = 1, MANY)], 2, ranks)
    odd = mod(count(values, dim=2), 2) == 1
    call predefined('land/logical', form, MPI_LOGICAL, MPI_LAND, transfer(values(:, rank), [0]), &
                    transfer(all(values, dim=2), [0]))
    call predefined('lor/logical', form, MPI_LOGICAL, MPI_LOR, transfer(values(:, rank), [0]), transfer(any(values, dim=2), [0]))
    call predefined('lxor/logical', form, MPI_LOGICAL, MPI_LXOR, transfer(values(:, rank), [0]), transfer(odd, [0]))
  end subroutine logicals

  ! Extents of 24 bytes, of which 16 are a matrix: behind a lower bound of 8, and of -8 from where the buffer begins.
  subroutine own_operators(form)
    integer, intent(in) :: form
    type(layout) :: layouts(3)
    integer :: op, code, i, way, collective
    layouts(1) = layout('/integer', MPI_INTEGER, 1, 1, 0)
    layouts(2) = layout('/behind_low', matrix(8, 8), 4, 6, 2)
    layouts(3) = layout('/before_low', matrix(0, -8), 4, 6, 0)
    do way = 1, 2
      if (way == 1) call MPI_Op_create(commuting, .true., op, code)
      if (way == 2) call MPI_Op_create(ordered, .false., op, code)
      do i = 1, size(layouts)
        do collective = 1, size(COLLECTIVES)
          call own_operator(collective, form, layouts(i), way == 1, op)
        end do
      end do
      call MPI_Op_free(op, code)
    end do
    call MPI_Type_free(layouts(2)%datatype, code)
    call MPI_Type_free(layouts(3)%datatype, code)
  end subroutine own_operators

  integer function matrix(at, low)
    integer, intent(in) :: at, low
    integer :: plain, code
    call MPI_Type_create_hindexed(1, [4], [int(at, MPI_ADDRESS_KIND)], MPI_INTEGER, plain, code)
    call MPI_Type_create_resized(plain, int(low, MPI_ADDRESS_KIND), 24_MPI_ADDRESS_KIND, matrix, code)
    call MPI_Type_free(plain, code)
    call MPI_Type_commit(matrix, code)
  end function matrix

  subroutine own_operator(collective, form, of, commutes, op)
    integer, intent(in) :: collective, form, op
    type(layout), intent(in) :: of
    logical, intent(in) :: commutes
    integer :: root, length, first, upto
    if (.not. begins(trim(merge('commuting', 'ordered  ', commutes))//trim(of%name)//trim(COLLECTIVES(collective))// &
                     FORMS(form))) return
    first = 0
    do length = FEW, MANY, MANY - FEW
      upto = ranks - 1
      if (collective == SCAN) upto = rank
      if (collective == EXSCAN) upto = rank - 1
      if (collective == SCATTER) first = length * rank
      do root = 0, merge(ranks - 1, 0, collective == REDUCE)
        call fill(folded(of, commutes, rank, rank, 0, merge(length * ranks, length, collective == SCATTER)), &
                  folded(of, commutes, 0, -1, 0, length))
        call reduction(collective, form, length, of%datatype, op, root)
        ! What rank 0 has of MPI_Exscan is undefined.
        if (collective == EXSCAN .and. rank == 0) cycle
        if (collective == REDUCE .and. rank /= root) upto = -1
        call compare(RECEIVED, folded(of, commutes, 0, upto, first, length))
        upto = ranks - 1
      end do
    end do
    call ends(natively=.false., copied=.true.)
  end subroutine own_operator

end module fortran_test
