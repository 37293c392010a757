/* Stands in for the header that ompi/op/op.h includes for this one conversion, and that is not installed. */
#ifndef GPUCOLL_SHIM_FINT_2_INT_H
#define GPUCOLL_SHIM_FINT_2_INT_H

#define OMPI_INT_2_FINT(value) ((MPI_Fint)(value))

#endif
